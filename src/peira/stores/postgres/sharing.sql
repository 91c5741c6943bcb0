-- Membership and the handing out of ranges; see stores/sharing.py. All times are those of the database's clock.

-- Renew the lease of a member, declare dead whoever let theirs run out, and say how the run stands. After a restart
-- of the server nobody is declared dead for the time of a lease: nobody could renew theirs.
CREATE OR REPLACE FUNCTION beat(
    p_me bigint, p_run text, p_failures integer, p_host text,
    OUT o_status text, OUT o_version integer, OUT o_stop bytea, OUT o_failures bigint, OUT o_left bigint,
    OUT o_open bigint, OUT o_taken bigint, OUT o_members bigint, OUT o_gone bigint[],
    OUT o_neighbours bigint[], OUT o_processes integer[]
) LANGUAGE plpgsql AS $$
DECLARE
    v_now double precision := extract(epoch FROM clock_timestamp());
    v_shared integer;
BEGIN
    UPDATE member SET until = v_now + lease, shared_run = p_run, failures = p_failures
    WHERE n = p_me AND state = 'alive';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the lease of this process has run out' USING ERRCODE = 'PE002';
    END IF;
    UPDATE member SET state = 'dead'
    WHERE state = 'alive' AND until < v_now
    AND extract(epoch FROM pg_postmaster_start_time()) + lease < v_now;

    SELECT s.n, s.trials - s.next, s.stop INTO v_shared, o_left, o_stop FROM shared_run AS s WHERE s.id = p_run;
    SELECT r.status, h.version INTO o_status, o_version FROM run AS r JOIN head AS h ON h.run = r.n WHERE r.id = p_run;
    SELECT count(*), count(*) FILTER (WHERE state = 'taken') INTO o_open, o_taken
    FROM leased_range WHERE shared = v_shared AND state IN ('taken', 'free');
    SELECT coalesce(sum(failures) FILTER (WHERE n <> p_me), 0), count(*) FILTER (WHERE state = 'alive')
    INTO o_failures, o_members FROM member WHERE shared_run = p_run;
    SELECT coalesce(array_agg(n ORDER BY n), '{}'), coalesce(array_agg(pid ORDER BY n), '{}')
    INTO o_neighbours, o_processes FROM member
    WHERE state IN ('alive', 'dead') AND until > v_now - 3600 AND host = p_host AND n <> p_me;
    SELECT coalesce(array_agg(n), '{}') INTO o_gone FROM member WHERE state <> 'alive' AND NOT released;
END
$$;

-- Lease a range to a living member: one that became free and has work of these classes, else, to who begins trials, the
-- next positions.
CREATE OR REPLACE FUNCTION take_range(
    p_me bigint, p_run text, p_size integer, p_members integer, p_classes text[],
    OUT o_first bigint, OUT o_size integer, OUT o_lost integer
) LANGUAGE plpgsql AS $$
DECLARE
    v_shared integer;
    v_next bigint;
    v_trials bigint;
BEGIN
    PERFORM 1 FROM member WHERE n = p_me AND state = 'alive' FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the lease of this process has run out' USING ERRCODE = 'PE002';
    END IF;
    SELECT n INTO v_shared FROM shared_run WHERE id = p_run;
    UPDATE leased_range SET state = 'taken', member = p_me
    WHERE shared = v_shared AND first = (
        SELECT first FROM leased_range WHERE shared = v_shared AND state = 'free'
        AND (needs = '{}' OR needs && p_classes)
        ORDER BY first LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    RETURNING first, size, lost INTO o_first, o_size, o_lost;
    IF FOUND OR NOT 'generate' = ANY(p_classes) THEN
        RETURN;
    END IF;
    SELECT next, trials INTO v_next, v_trials FROM shared_run WHERE n = v_shared AND next < trials FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    o_first := v_next;
    o_size := least(v_trials - v_next, greatest(1, least(p_size, ceil((v_trials - v_next) / (2.0 * p_members)))));
    o_lost := 0;
    UPDATE shared_run SET next = v_next + o_size WHERE n = v_shared;
    INSERT INTO leased_range (shared, first, size, state, member) VALUES (v_shared, o_first, o_size, 'taken', p_me);
END
$$;

-- Hold the ranges again of which all that was left had waited for people; false if the run is being closed.
CREATE OR REPLACE FUNCTION resume_ranges(p_me bigint, p_run text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_shared integer;
BEGIN
    SELECT n INTO v_shared FROM shared_run WHERE id = p_run FOR UPDATE;
    UPDATE leased_range SET state = 'taken' WHERE shared = v_shared AND member = p_me AND state = 'waiting';
    RETURN FOUND;
END
$$;

-- A run is about to be closed: what waits is left to a later run. False if something is to be done; of a run that was
-- stopped, only what is being done counts.
CREATE OR REPLACE FUNCTION close_ranges(p_run text, p_stopped boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_shared integer;
    v_left boolean;
BEGIN
    SELECT n, next < trials INTO v_shared, v_left FROM shared_run WHERE id = p_run FOR UPDATE;
    PERFORM 1 FROM leased_range
    WHERE shared = v_shared AND (state = 'taken' OR state = 'free' AND NOT p_stopped) LIMIT 1;
    IF FOUND OR v_left AND NOT p_stopped THEN
        RETURN false;
    END IF;
    UPDATE leased_range SET state = 'done' WHERE shared = v_shared AND state = 'waiting';
    RETURN true;
END
$$;

-- The tasks of members that are gone are queued again: their ranges are free, and the server's processes that still
-- serve the dead are ended, so that they hold no lock.
CREATE OR REPLACE FUNCTION release_members(p_members bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE leased_range SET state = 'free', lost = lost + (SELECT count(*) FROM member WHERE n = leased_range.member AND state IN ('dead', 'gone'))
    WHERE state IN ('taken', 'waiting') AND member IN (SELECT n FROM member WHERE n = ANY(p_members) AND state <> 'alive');
    UPDATE member SET released = true WHERE n = ANY(p_members) AND state <> 'alive';
    BEGIN
        PERFORM pg_terminate_backend(backend) FROM member
        WHERE n = ANY(p_members) AND state IN ('dead', 'gone') AND until IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM member AS other WHERE other.backend = member.backend AND other.state = 'alive')
        AND EXISTS (SELECT 1 FROM pg_locks WHERE pid = member.backend AND locktype = 'advisory');
    EXCEPTION WHEN insufficient_privilege THEN
        NULL;
    END;
END
$$;

-- Take or keep a duty that one living member has at a time.
CREATE OR REPLACE FUNCTION hold_duty(p_me bigint, p_name text, p_seconds double precision) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_now double precision := extract(epoch FROM clock_timestamp());
BEGIN
    INSERT INTO duty AS d VALUES (p_name, p_me, v_now + p_seconds)
    ON CONFLICT (name) DO UPDATE SET member = excluded.member, until = excluded.until
    WHERE d.member = excluded.member OR d.until < v_now
    OR NOT EXISTS (SELECT 1 FROM member WHERE n = d.member AND state = 'alive');
    RETURN FOUND;
END
$$;

-- Take a share of a pool, which is made on first use. The pool's row is locked before it is read: two who take at the
-- same time take one after the other. A share is a quarter of what each member could have of the rest, or what is needed.
CREATE OR REPLACE FUNCTION draw_share(
    p_me bigint, p_run text, p_scope text, p_most double precision, p_before double precision,
    p_need double precision,
    OUT o_given double precision, OUT o_left double precision, OUT o_hope boolean
) LANGUAGE plpgsql AS $$
DECLARE
    v_shared integer;
    v_granted double precision;
    v_members bigint;
BEGIN
    PERFORM 1 FROM member WHERE n = p_me AND state = 'alive' FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the lease of this process has run out' USING ERRCODE = 'PE002';
    END IF;
    SELECT n INTO v_shared FROM shared_run WHERE id = p_run;
    INSERT INTO pool (shared, scope, granted) VALUES (v_shared, p_scope, p_before) ON CONFLICT DO NOTHING;
    SELECT granted INTO v_granted FROM pool WHERE shared = v_shared AND scope = p_scope FOR UPDATE;
    SELECT greatest(1, count(*)) INTO v_members FROM member WHERE shared_run = p_run AND state = 'alive';
    o_given := 0;
    o_left := p_most - v_granted;
    o_hope := false;
    IF o_left >= p_need - 1e-9 * p_most THEN
        o_given := greatest(p_need, least(o_left, floor(o_left / (4 * v_members))));
        UPDATE pool SET granted = granted + o_given, wanted = 0 WHERE shared = v_shared AND scope = p_scope;
        INSERT INTO pool_share AS s (shared, scope, member, granted) VALUES (v_shared, p_scope, p_me, o_given)
        ON CONFLICT (shared, scope, member) DO UPDATE SET granted = s.granted + excluded.granted;
    ELSE
        UPDATE pool SET wanted = greatest(wanted, p_need) WHERE shared = v_shared AND scope = p_scope;
        SELECT coalesce(sum(s.granted - s.settled), 0) > 1e-9 * p_most INTO o_hope
        FROM pool_share AS s JOIN member AS m ON m.n = s.member
        WHERE s.shared = v_shared AND s.scope = p_scope AND s.member <> p_me AND NOT m.released;
    END IF;
END
$$;

-- Take shares of several pools, all or none (PE003); in the transaction of a commit, after `put` (p_at is its time).
CREATE OR REPLACE FUNCTION draw_shares(
    p_me bigint, p_at double precision, p_run text[], p_scope text[], p_most double precision[],
    p_before double precision[], p_need double precision[]
) RETURNS double precision[] LANGUAGE plpgsql AS $$
DECLARE
    v_given double precision;
    v_all double precision[] := '{}';
BEGIN
    FOR i IN 1 .. cardinality(p_run) LOOP
        SELECT o_given INTO v_given FROM draw_share(p_me, p_run[i], p_scope[i], p_most[i], p_before[i], p_need[i]);
        IF v_given = 0 THEN
            RAISE EXCEPTION 'there is not enough left of %', p_scope[i] USING ERRCODE = 'PE003';
        END IF;
        v_all := v_all || v_given;
    END LOOP;
    RETURN v_all;
END
$$;

-- Say what is used and settled of a share, and give back the rest if somebody wants it; the share from now on.
CREATE OR REPLACE FUNCTION settle_share(
    p_me bigint, p_run text, p_scope text, p_share double precision, p_used double precision,
    p_settled double precision, p_everything boolean
) RETURNS double precision LANGUAGE plpgsql AS $$
DECLARE
    v_shared integer;
    v_wanted double precision;
BEGIN
    SELECT n INTO v_shared FROM shared_run WHERE id = p_run;
    SELECT wanted INTO v_wanted FROM pool WHERE shared = v_shared AND scope = p_scope FOR UPDATE;
    IF NOT FOUND THEN
        RETURN p_share;
    END IF;
    IF (v_wanted > 0 OR p_everything) AND p_share > p_used THEN
        UPDATE pool SET granted = granted - (p_share - p_used) WHERE shared = v_shared AND scope = p_scope;
        UPDATE pool_share SET granted = granted - (p_share - p_used), settled = p_settled
        WHERE shared = v_shared AND scope = p_scope AND member = p_me;
        RETURN p_used;
    END IF;
    UPDATE pool_share SET settled = p_settled
    WHERE shared = v_shared AND scope = p_scope AND member = p_me AND settled <> p_settled;
    RETURN p_share;
END
$$;

-- A member that is gone has spent no more than this of its share: the rest returns to the pool, once.
CREATE OR REPLACE FUNCTION reclaim_share(p_run text, p_scope text, p_member bigint, p_spent double precision)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_shared integer;
    v_more double precision;
BEGIN
    SELECT n INTO v_shared FROM shared_run WHERE id = p_run;
    PERFORM 1 FROM pool WHERE shared = v_shared AND scope = p_scope FOR UPDATE;
    SELECT granted - p_spent INTO v_more FROM pool_share
    WHERE shared = v_shared AND scope = p_scope AND member = p_member AND granted > settled FOR UPDATE;
    IF FOUND THEN
        UPDATE pool SET granted = granted - v_more WHERE shared = v_shared AND scope = p_scope;
        UPDATE pool_share SET granted = p_spent, settled = p_spent
        WHERE shared = v_shared AND scope = p_scope AND member = p_member;
    END IF;
END
$$;

-- Times to send to a model that nobody else has, as long as so many seconds; in how many seconds they begin.
CREATE OR REPLACE FUNCTION take_turns(p_model text, p_seconds double precision) RETURNS double precision
LANGUAGE plpgsql AS $$
DECLARE
    v_now double precision := extract(epoch FROM clock_timestamp());
    v_next double precision;
BEGIN
    INSERT INTO model_limit AS m (name, next_send) VALUES (p_model, v_now + p_seconds)
    ON CONFLICT (name) DO UPDATE SET next_send = greatest(m.next_send, v_now) + p_seconds
    RETURNING next_send INTO v_next;
    RETURN v_next - p_seconds - extract(epoch FROM clock_timestamp());
END
$$;

-- Add to the tokens that all have used, in seconds of the rate; in how many seconds they are over.
CREATE OR REPLACE FUNCTION use_tokens(p_model text, p_seconds double precision) RETURNS double precision
LANGUAGE plpgsql AS $$
DECLARE
    v_now double precision := extract(epoch FROM clock_timestamp());
    v_due double precision;
BEGIN
    INSERT INTO model_limit AS m (name, tokens_due) VALUES (p_model, v_now + p_seconds)
    ON CONFLICT (name) DO UPDATE SET tokens_due = greatest(m.tokens_due, v_now) + p_seconds
    RETURNING tokens_due INTO v_due;
    RETURN v_due - extract(epoch FROM clock_timestamp());
END
$$;

-- Nobody is to send to a model for so many seconds.
CREATE OR REPLACE FUNCTION close_model(p_model text, p_seconds double precision) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO model_limit AS m (name, closed_until)
    VALUES (p_model, extract(epoch FROM clock_timestamp()) + p_seconds)
    ON CONFLICT (name) DO UPDATE SET closed_until = greatest(m.closed_until, excluded.closed_until);
END
$$;

-- Hold slots of a model: a fair part of them, no more than are wanted or free, and no fewer than are in use.
CREATE OR REPLACE FUNCTION hold_slots(
    p_me bigint, p_model text, p_most integer, p_using integer, p_wanted integer
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_others bigint;
    v_members bigint;
    v_slots integer;
BEGIN
    PERFORM 1 FROM member WHERE n = p_me AND state = 'alive' FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the lease of this process has run out' USING ERRCODE = 'PE002';
    END IF;
    INSERT INTO model_limit (name) VALUES (p_model) ON CONFLICT DO NOTHING;
    PERFORM 1 FROM model_limit WHERE name = p_model FOR UPDATE;
    SELECT coalesce(sum(slots), 0), count(*) FILTER (WHERE wanted > 0) INTO v_others, v_members
    FROM model_slot JOIN member ON member.n = model_slot.member
    WHERE name = p_model AND model_slot.member <> p_me AND state = 'alive';
    v_slots := least(p_wanted, p_most - v_others, greatest(1, ceil(p_most::numeric / (v_members + 1))::integer));
    v_slots := greatest(v_slots, p_using, 0);
    INSERT INTO model_slot VALUES (p_model, p_me, v_slots, p_wanted)
    ON CONFLICT (name, member) DO UPDATE SET slots = excluded.slots, wanted = excluded.wanted;
    RETURN v_slots;
END
$$;
