-- Membership and the handing out of ranges; see stores/sharing.py. All times are those of the database's clock.

-- Renew the lease of a member, declare dead whoever let theirs run out, and say how the run stands. After a restart
-- of the server nobody is declared dead for the time of a lease: nobody could renew theirs.
CREATE OR REPLACE FUNCTION beat(
    p_me bigint, p_run text, p_failures integer,
    OUT o_status text, OUT o_version integer, OUT o_stop bytea, OUT o_failures bigint, OUT o_left bigint,
    OUT o_open bigint, OUT o_taken bigint, OUT o_members bigint, OUT o_gone bigint[]
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
    FROM leased_range WHERE shared = v_shared AND state <> 'done';
    SELECT coalesce(sum(failures) FILTER (WHERE n <> p_me), 0), count(*) FILTER (WHERE state = 'alive')
    INTO o_failures, o_members FROM member WHERE shared_run = p_run;
    SELECT coalesce(array_agg(n), '{}') INTO o_gone FROM member WHERE state <> 'alive' AND NOT released;
END
$$;

-- Lease a range to a living member: one that became free, else the next positions.
CREATE OR REPLACE FUNCTION take_range(
    p_me bigint, p_run text, p_size integer, p_members integer,
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
        ORDER BY first LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    RETURNING first, size, lost INTO o_first, o_size, o_lost;
    IF FOUND THEN
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

-- The tasks of members that are gone are queued again: their ranges are free, and the server's processes that still
-- serve the dead are ended, so that they hold no lock.
CREATE OR REPLACE FUNCTION release_members(p_members bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE leased_range SET state = 'free', lost = lost + (SELECT count(*) FROM member WHERE n = leased_range.member AND state = 'dead')
    WHERE state = 'taken' AND member IN (SELECT n FROM member WHERE n = ANY(p_members) AND state <> 'alive');
    UPDATE member SET released = true WHERE n = ANY(p_members) AND state <> 'alive';
    BEGIN
        PERFORM pg_terminate_backend(backend) FROM member
        WHERE n = ANY(p_members) AND state = 'dead' AND until IS NOT NULL
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
