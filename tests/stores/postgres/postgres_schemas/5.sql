CREATE SCHEMA former_store;
CREATE FUNCTION former_store.beat(p_me bigint, p_run text, p_failures integer, p_host text, OUT o_status text, OUT o_version integer, OUT o_stop bytea, OUT o_failures bigint, OUT o_left bigint, OUT o_open bigint, OUT o_taken bigint, OUT o_members bigint, OUT o_gone bigint[], OUT o_neighbours bigint[], OUT o_processes integer[]) RETURNS record
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION former_store.close_model(p_model text, p_seconds double precision) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO model_limit AS m (name, closed_until)
    VALUES (p_model, extract(epoch FROM clock_timestamp()) + p_seconds)
    ON CONFLICT (name) DO UPDATE SET closed_until = greatest(m.closed_until, excluded.closed_until);
END
$$;
CREATE FUNCTION former_store.close_ranges(p_run text, p_stopped boolean) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION former_store.draw_share(p_me bigint, p_run text, p_scope text, p_most double precision, p_before double precision, p_need double precision, OUT o_given double precision, OUT o_left double precision, OUT o_hope boolean) RETURNS record
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION former_store.extended(p_known bigint[], p_more bigint[]) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT CASE
        WHEN p_known[1] = p_more[1] AND p_more[2] <= p_known[3] + 1000
        THEN ARRAY[p_known[1], p_known[2], greatest(p_known[3], p_more[3])] || p_known[4:]
        ELSE p_more || p_known
    END
$$;
CREATE FUNCTION former_store.hold_duty(p_me bigint, p_name text, p_seconds double precision) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION former_store.hold_slots(p_me bigint, p_model text, p_most integer, p_using integer, p_wanted integer) RETURNS integer
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION former_store.put(p_me bigint, p_token bigint, p_at double precision, p_b_digest bytea[], p_b_codec text[], p_b_data bytea[], p_b_size bigint[], p_t_id bytea[], p_t_kind text[], p_t_class text[], p_t_state smallint[], p_t_epoch integer[], p_t_owner text[], p_t_attempts integer[], p_t_interruptions integer[], p_t_priority integer[], p_t_not_before double precision[], p_t_run integer[], p_t_reused bytea[], p_t_rest bytea[], p_t_result bytea[], p_t_version integer[], p_t_place integer[], p_t_head integer[], p_t_first integer[], p_t_last integer[], p_h_run integer[], p_h_events integer[], p_h_version integer[], p_h_change integer[], p_r_id bytea[], p_r_version integer[], p_r_head integer[], p_r_first integer[], p_r_last integer[], p_c_key bytea[], p_c_task bytea[], p_c_name text[], p_c_state text[], p_c_value bytea[], p_c_blob text[], p_c_rest bytea[], p_c_head integer[], p_c_offset integer[], p_c_model text[], p_c_input bigint[], p_c_output bigint[], p_c_cost double precision[], p_c_version integer[], p_e_head integer[], p_e_offset integer[], p_e_body bytea[], OUT o_at double precision, OUT o_first bigint[]) RETURNS record
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    v_changed bigint;
    v_updated bigint;
    v_extend boolean;
    v_first bigint;
    v_number bigint;
BEGIN
    UPDATE member SET token = p_token WHERE n = p_me AND state = 'alive';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another process has taken the store over' USING ERRCODE = 'PE002';
    END IF;
    IF p_b_digest IS NOT NULL THEN
        INSERT INTO blob (digest, codec, data, size)
        SELECT * FROM unnest(p_b_digest, p_b_codec, p_b_data, p_b_size) ON CONFLICT DO NOTHING;
    END IF;
    IF p_h_run IS NOT NULL THEN
        FOR i IN 1 .. cardinality(p_h_run) LOOP
            UPDATE head SET next_seq = next_seq + p_h_events[i], version = version + p_h_change[i]
            WHERE run = p_h_run[i] AND version = p_h_version[i]
            RETURNING next_seq - p_h_events[i] INTO v_first;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'runs have changed' USING ERRCODE = 'PE001';
            END IF;
            o_first[i] := v_first;
        END LOOP;
    END IF;
    -- New rows are inserted and known ones updated: an upsert would look each key up twice, and lock the row first.
    IF p_t_id IS NOT NULL THEN
        v_number := nextval('commit_number') << 24;
        v_changed := 0;
        IF 1 = ANY(p_t_version) THEN
            INSERT INTO task (id, n, kind, class, state, epoch, owner, attempts, interruptions, priority,
                              not_before, run, reused_from, rest, result, version, events)
            SELECT u.id, v_number | u.place, u.kind, u.class, u.state, u.epoch, u.owner, u.attempts, u.interruptions,
                   u.priority, u.not_before, u.run, u.reused, u.rest, u.result, u.version,
                   ARRAY[p_h_run[u.head], o_first[u.head] + u.first, o_first[u.head] + u.last]
            FROM unnest(p_t_id, p_t_kind, p_t_class, p_t_state, p_t_epoch, p_t_owner, p_t_attempts,
                        p_t_interruptions, p_t_priority, p_t_not_before, p_t_run, p_t_reused, p_t_rest, p_t_result,
                        p_t_version, p_t_place, p_t_head, p_t_first, p_t_last)
                AS u(id, kind, class, state, epoch, owner, attempts, interruptions, priority, not_before, run, reused,
                     rest, result, version, place, head, first, last)
            WHERE u.version = 1;
            GET DIAGNOSTICS v_changed = ROW_COUNT;
        END IF;
        IF v_changed < cardinality(p_t_id) THEN
            UPDATE task AS t SET
                kind = u.kind, class = u.class, state = u.state, epoch = u.epoch, owner = u.owner,
                attempts = u.attempts, interruptions = u.interruptions, priority = u.priority,
                not_before = u.not_before, run = u.run, reused_from = u.reused, rest = u.rest, result = u.result,
                version = u.version, events = extended(t.events,
                    ARRAY[p_h_run[u.head], o_first[u.head] + u.first, o_first[u.head] + u.last])
            FROM unnest(p_t_id, p_t_kind, p_t_class, p_t_state, p_t_epoch, p_t_owner, p_t_attempts,
                        p_t_interruptions, p_t_priority, p_t_not_before, p_t_run, p_t_reused, p_t_rest, p_t_result,
                        p_t_version, p_t_head, p_t_first, p_t_last)
                AS u(id, kind, class, state, epoch, owner, attempts, interruptions, priority, not_before, run, reused,
                     rest, result, version, head, first, last)
            WHERE t.id = u.id AND t.version = u.version - 1 AND u.version > 1;
            GET DIAGNOSTICS v_updated = ROW_COUNT;
            IF v_changed + v_updated <> cardinality(p_t_id) THEN
                RAISE EXCEPTION 'tasks have changed' USING ERRCODE = 'PE001';
            END IF;
        END IF;
    END IF;
    IF p_r_id IS NOT NULL THEN
        SELECT count(*), bool_or(outside) INTO v_changed, v_extend FROM (
            SELECT task.events[1] <> p_h_run[r.head] OR task.events[3] + 1000 < o_first[r.head] + r.last AS outside
            FROM unnest(p_r_id, p_r_version, p_r_head, p_r_last) AS r(id, version, head, last)
            JOIN task USING (id) WHERE task.version = r.version FOR SHARE OF task
        ) AS unchanged;
        IF v_changed <> cardinality(p_r_id) THEN
            RAISE EXCEPTION 'tasks have changed' USING ERRCODE = 'PE001';
        END IF;
        IF v_extend THEN
            UPDATE task SET events = extended(events, more) FROM (
                SELECT id, ARRAY[p_h_run[head], o_first[head] + first, o_first[head] + last] AS more
                FROM unnest(p_r_id, p_r_head, p_r_first, p_r_last) AS r(id, head, first, last)
            ) AS r WHERE task.id = r.id AND (task.events[1] <> more[1] OR task.events[3] + 1000 < more[3]);
        END IF;
    END IF;
    IF p_c_key IS NOT NULL THEN
        v_changed := 0;
        IF 1 = ANY(p_c_version) THEN
            INSERT INTO call (key, task, name, state, value, blob, rest, asked, model, input, output, cost, version)
            SELECT u.key, u.task, u.name, u.state, u.value, u.blob, u.rest,
                   p_h_run[u.head]::bigint << 40 | (o_first[u.head] + u.place),
                   u.model, u.input, u.output, u.cost, u.version
            FROM unnest(p_c_key, p_c_task, p_c_name, p_c_state, p_c_value, p_c_blob, p_c_rest, p_c_head, p_c_offset,
                        p_c_model, p_c_input, p_c_output, p_c_cost, p_c_version)
                AS u(key, task, name, state, value, blob, rest, head, place, model, input, output, cost, version)
            WHERE u.version = 1;
            GET DIAGNOSTICS v_changed = ROW_COUNT;
        END IF;
        IF v_changed < cardinality(p_c_key) THEN
            UPDATE call AS c SET
                task = u.task, name = u.name, state = u.state, value = u.value, blob = u.blob, rest = u.rest,
                asked = coalesce(p_h_run[u.head]::bigint << 40 | (o_first[u.head] + u.place), c.asked),
                model = u.model, input = u.input, output = u.output, cost = u.cost, version = u.version
            FROM unnest(p_c_key, p_c_task, p_c_name, p_c_state, p_c_value, p_c_blob, p_c_rest, p_c_head, p_c_offset,
                        p_c_model, p_c_input, p_c_output, p_c_cost, p_c_version)
                AS u(key, task, name, state, value, blob, rest, head, place, model, input, output, cost, version)
            WHERE c.key = u.key AND c.version = u.version - 1 AND u.version > 1;
            GET DIAGNOSTICS v_updated = ROW_COUNT;
            IF v_changed + v_updated <> cardinality(p_c_key) THEN
                RAISE EXCEPTION 'calls have changed' USING ERRCODE = 'PE001';
            END IF;
        END IF;
    END IF;
    o_at := coalesce(p_at, extract(epoch FROM clock_timestamp()));
    IF p_e_body IS NOT NULL THEN
        v_number := nextval('commit_number') << 24;
        INSERT INTO event (run, seq, n, at, body)
        SELECT p_h_run[u.head], o_first[u.head] + u.place, v_number | u.number, o_at, u.body
        FROM unnest(p_e_head, p_e_offset, p_e_body) WITH ORDINALITY AS u(head, place, body, number);
    END IF;
END
$$;
CREATE FUNCTION former_store.reclaim_share(p_run text, p_scope text, p_member bigint, p_spent double precision) RETURNS void
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION former_store.release_members(p_members bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION former_store.resume_ranges(p_me bigint, p_run text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_shared integer;
BEGIN
    SELECT n INTO v_shared FROM shared_run WHERE id = p_run FOR UPDATE;
    UPDATE leased_range SET state = 'taken' WHERE shared = v_shared AND member = p_me AND state = 'waiting';
    RETURN FOUND;
END
$$;
CREATE FUNCTION former_store.settle_share(p_me bigint, p_run text, p_scope text, p_share double precision, p_used double precision, p_settled double precision, p_everything boolean) RETURNS double precision
    LANGUAGE plpgsql
    AS $$
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
        UPDATE pool_share SET granted = p_used, settled = p_settled
        WHERE shared = v_shared AND scope = p_scope AND member = p_me;
        RETURN p_used;
    END IF;
    UPDATE pool_share SET settled = p_settled
    WHERE shared = v_shared AND scope = p_scope AND member = p_me AND settled <> p_settled;
    RETURN p_share;
END
$$;
CREATE FUNCTION former_store.take_range(p_me bigint, p_run text, p_size integer, p_members integer, p_classes text[], OUT o_first bigint, OUT o_size integer, OUT o_lost integer) RETURNS record
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION former_store.take_turns(p_model text, p_seconds double precision) RETURNS double precision
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION former_store.use_tokens(p_model text, p_seconds double precision) RETURNS double precision
    LANGUAGE plpgsql
    AS $$
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
CREATE TABLE former_store.blob (
    digest bytea NOT NULL,
    codec text NOT NULL,
    data bytea,
    size bigint NOT NULL
);
ALTER TABLE ONLY former_store.blob ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE former_store.call (
    key bytea NOT NULL,
    task bytea NOT NULL,
    name text NOT NULL,
    state text NOT NULL,
    value bytea,
    blob text,
    rest bytea,
    asked bigint,
    model text,
    input bigint,
    output bigint,
    cost double precision,
    version integer NOT NULL
)
WITH (fillfactor='80');
CREATE TABLE former_store.command (
    n bigint NOT NULL,
    id text NOT NULL,
    body bytea NOT NULL
);
ALTER TABLE former_store.command ALTER COLUMN n ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME former_store.command_n_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE SEQUENCE former_store.commit_number
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE former_store.duty (
    name text NOT NULL,
    member bigint NOT NULL,
    until double precision NOT NULL
)
WITH (fillfactor='10');
CREATE TABLE former_store.event (
    run integer NOT NULL,
    seq bigint NOT NULL,
    n bigint NOT NULL,
    at double precision NOT NULL,
    body bytea NOT NULL
);
CREATE TABLE former_store.head (
    run integer NOT NULL,
    next_seq bigint NOT NULL,
    version integer NOT NULL
)
WITH (fillfactor='10');
CREATE TABLE former_store.leased_range (
    shared integer NOT NULL,
    first bigint NOT NULL,
    size integer NOT NULL,
    state text NOT NULL,
    member bigint NOT NULL,
    lost integer DEFAULT 0 NOT NULL,
    counts jsonb DEFAULT '{}'::jsonb NOT NULL,
    needs text[] DEFAULT '{}'::text[] NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE former_store.member (
    n bigint NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    backend integer NOT NULL,
    state text NOT NULL,
    joined double precision NOT NULL,
    token bigint DEFAULT 0 NOT NULL,
    until double precision,
    lease double precision,
    shared_run text,
    failures integer DEFAULT 0 NOT NULL,
    released boolean DEFAULT false NOT NULL
)
WITH (fillfactor='20');
CREATE TABLE former_store.model_limit (
    name text NOT NULL,
    next_send double precision DEFAULT 0 NOT NULL,
    tokens_due double precision DEFAULT 0 NOT NULL,
    closed_until double precision DEFAULT 0 NOT NULL
)
WITH (fillfactor='10');
CREATE TABLE former_store.model_slot (
    name text NOT NULL,
    member bigint NOT NULL,
    slots integer NOT NULL,
    wanted integer NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE former_store.pool (
    shared integer NOT NULL,
    scope text NOT NULL,
    granted double precision NOT NULL,
    wanted double precision DEFAULT 0 NOT NULL
)
WITH (fillfactor='10');
CREATE TABLE former_store.pool_share (
    shared integer NOT NULL,
    scope text NOT NULL,
    member bigint NOT NULL,
    granted double precision NOT NULL,
    settled double precision DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE former_store.run (
    n integer NOT NULL,
    id text NOT NULL,
    manifest text NOT NULL,
    study text NOT NULL,
    trials bigint NOT NULL,
    status text NOT NULL,
    planned double precision NOT NULL,
    owner text NOT NULL,
    incarnation bigint NOT NULL,
    rest bytea NOT NULL,
    name text
);
ALTER TABLE former_store.run ALTER COLUMN n ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME former_store.run_n_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE former_store.run_tag (
    tag text NOT NULL,
    at double precision NOT NULL,
    run integer NOT NULL
);
CREATE TABLE former_store.shared_run (
    n integer NOT NULL,
    id text NOT NULL,
    next bigint DEFAULT 0 NOT NULL,
    trials bigint NOT NULL,
    options bytea NOT NULL,
    stop bytea DEFAULT '\x'::bytea NOT NULL
)
WITH (fillfactor='10');
ALTER TABLE former_store.shared_run ALTER COLUMN n ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME former_store.shared_run_n_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE former_store.store (
    version integer NOT NULL,
    blobs text NOT NULL
);
CREATE TABLE former_store.task (
    id bytea NOT NULL,
    n bigint NOT NULL,
    kind text NOT NULL,
    class text NOT NULL,
    state smallint NOT NULL,
    epoch integer NOT NULL,
    owner text,
    attempts integer NOT NULL,
    interruptions integer,
    priority integer,
    not_before double precision,
    run integer NOT NULL,
    reused_from bytea,
    rest bytea,
    result bytea,
    version integer NOT NULL,
    events bigint[] NOT NULL
)
WITH (fillfactor='80');
INSERT INTO former_store.blob VALUES ('\x44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a', 'none', '\x7b7d', 2);
INSERT INTO former_store.blob VALUES ('\x8869ad22943e917a9e5aae887407895ca2687608588cb6f5e154e6cc4c617642', 'none', '\x227265717565737422', 9);
INSERT INTO former_store.blob VALUES ('\xda48499831c1a4cf69f931b19892bb682496ac9dd60bb47de71cc29acbb840eb', 'zstd', '\x28b52ffd60b0035d000020626c6f620100a9fc3b22', 21);
INSERT INTO former_store.blob VALUES ('\x1f58b9145b24d108d7ac38887338b3ea3229833b9c1e418250343f907bfd1047', 'none', '\x72657175657374', 7);
INSERT INTO former_store.call VALUES ('\x0f4657778ae14ff7aeeb2c2190ede79099aa9c4e8a9e54829462f0e92af659e5', '\xac8d8342bbb2362d13f0a559a3621bb407011368895164b628a54f7fc33fc43c', 's', 'recorded', '\x5b312c325d', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1);
INSERT INTO former_store.call VALUES ('\x8ca5d81566f88badd698137ac629cbf93ccc107c0cd967b7964f7d82088f6ebf', '\xc100f95c1913f9c72fc1f4ef0847e1e723ffe0bde0b36e5f36c13f81fe8c26ed', 't', 'recorded', '\x5b312c325d', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1);
INSERT INTO former_store.call VALUES ('\x9fd6fd2ffd299ff3691b5e216c4778afe73ff2b7e23fb14e138b032cfc0994e0', '\xc100f95c1913f9c72fc1f4ef0847e1e723ffe0bde0b36e5f36c13f81fe8c26ed', '0', 'answered', '\x31', NULL, '\x5b2231663538623931343562323464313038643761633338383837333338623365613332323938333362396331653431383235303334336639303762666431303437222c312c22222c22222c22222c22222c302e305d', 1099511627784, 'm', 3, 4, 0.5, 2);
INSERT INTO former_store.event VALUES (1, 1, 16777217, 1760000000, '\x7b226b696e64223a2272756e2e706c616e6e6564222c226d616e6966657374223a2234343133366661333535623336373861313134366164313666376538363439653934666234666332316665373765383331306330363066363163616166663861222c227374756479223a227374756479222c22747269616c73223a302c2274616773223a5b226e696768746c79225d7d');
INSERT INTO former_store.event VALUES (1, 2, 33554433, 1760000000, '\x7b226b696e64223a2272756e2e73746172746564222c226f776e6572223a226f776e6572222c22696e6361726e6174696f6e223a317d');
INSERT INTO former_store.event VALUES (1, 3, 67108865, 1760000000, '\x7b226b696e64223a227461736b732e636c61696d6564222c227461736b5f6b696e64223a22776f726b222c22636c73223a22776f726b222c226f776e6572223a226f776e6572222c227461736b73223a5b2261633864383334326262623233363264313366306135353961333632316262343037303131333638383935313634623632386135346637666333336663343363222c2263313030663935633139313366396337326663316634656630383437653165373233666665306264653062333665356633366331336638316665386332366564225d2c2265706f636873223a5b312c315d7d');
INSERT INTO former_store.event VALUES (1, 4, 67108866, 1760000000, '\x7b226b696e64223a22737465702e7265636f72646564222c227461736b223a2261633864383334326262623233363264313366306135353961333632316262343037303131333638383935313634623632386135346637666333336663343363222c2265706f6368223a312c226b6579223a2230663436353737373861653134666637616565623263323139306564653739303939616139633465386139653534383239343632663065393261663635396535222c226e616d65223a2273222c2276616c7565223a5b312c325d7d');
INSERT INTO former_store.event VALUES (1, 5, 67108867, 1760000000, '\x7b226b696e64223a227461736b2e66696e6973686564222c227461736b223a2261633864383334326262623233363264313366306135353961333632316262343037303131333638383935313634623632386135346637666333336663343363222c2265706f6368223a312c227374617465223a22737563636565646564222c22726573756c74223a7b22746f6f6b223a302e352c226f7574707574223a317d7d');
INSERT INTO former_store.event VALUES (1, 6, 100663297, 1760000000, '\x7b226b696e64223a227461736b732e717565756564222c227461736b73223a5b7b226964223a2238373939323364613032306431353333663464386539323165613762616336316538626134316433633839643137613464313465336138396336373830643564222c226b696e64223a22776f726b222c22636c73223a22776f726b227d5d7d');
INSERT INTO former_store.event VALUES (1, 7, 100663298, 1760000000, '\x7b226b696e64223a22737465702e7265636f72646564222c227461736b223a2263313030663935633139313366396337326663316634656630383437653165373233666665306264653062333665356633366331336638316665386332366564222c2265706f6368223a312c226b6579223a2238636135643831353636663838626164643639383133376163363239636266393363636331303763306364393637623739363466376438323038386636656266222c226e616d65223a2274222c2276616c7565223a5b312c325d7d');
INSERT INTO former_store.event VALUES (1, 8, 117440513, 1760000000, '\x7b226b696e64223a2263616c6c2e696e74656e646564222c227461736b223a2263313030663935633139313366396337326663316634656630383437653165373233666665306264653062333665356633366331336638316665386332366564222c2265706f6368223a312c226b6579223a2239666436666432666664323939666633363931623565323136633437373861666537336666326237653233666231346531333862303332636663303939346530222c226d6f64656c223a226d222c2272657175657374223a2231663538623931343562323464313038643761633338383837333338623365613332323938333362396331653431383235303334336639303762666431303437222c22706c616365223a2230227d');
INSERT INTO former_store.event VALUES (1, 9, 134217729, 1760000000, '\x7b226b696e64223a2272756e2e66696e6973686564222c22737461747573223a22696e746572727570746564222c22636f756e7473223a7b22776f726b2e737563636565646564223a317d7d');
INSERT INTO former_store.event VALUES (1, 10, 150994945, 1760000000, '\x7b226b696e64223a2263616c6c2e616e737765726564222c227461736b223a2263313030663935633139313366396337326663316634656630383437653165373233666665306264653062333665356633366331336638316665386332366564222c226b6579223a2239666436666432666664323939666633363931623565323136633437373861666537336666326237653233666231346531333862303332636663303939346530222c22616e73776572223a312c22696e707574223a332c226f7574707574223a342c22636f7374223a302e357d');
INSERT INTO former_store.event VALUES (2, 1, 167772161, 1760000000, '\x7b226b696e64223a2272756e2e706c616e6e6564222c226d616e6966657374223a2234343133366661333535623336373861313134366164313666376538363439653934666234666332316665373765383331306330363066363163616166663861222c227374756479223a227374756479222c22747269616c73223a307d');
INSERT INTO former_store.event VALUES (2, 2, 184549377, 1760000000, '\x7b226b696e64223a2272756e2e73746172746564222c226f776e6572223a226f776e6572222c22696e6361726e6174696f6e223a317d');
INSERT INTO former_store.event VALUES (2, 3, 218103809, 1760000000, '\x7b226b696e64223a227461736b732e696e746572727570746564222c227461736b73223a5b2263313030663935633139313366396337326663316634656630383437653165373233666665306264653062333665356633366331336638316665386332366564225d7d');
INSERT INTO former_store.event VALUES (2, 4, 218103810, 1760000000, '\x7b226b696e64223a227461736b732e636c61696d6564222c227461736b5f6b696e64223a22776f726b222c22636c73223a22776f726b222c226f776e6572223a226f776e6572222c227461736b73223a5b2263313030663935633139313366396337326663316634656630383437653165373233666665306264653062333665356633366331336638316665386332366564225d2c2265706f636873223a5b325d7d');
INSERT INTO former_store.head VALUES (1, 11, 3);
INSERT INTO former_store.head VALUES (2, 5, 1);
INSERT INTO former_store.member VALUES (1, 'host', 1, 1, 'left', 1794973446.376625, 15, NULL, NULL, NULL, 0, false);
INSERT INTO former_store.run OVERRIDING SYSTEM VALUE VALUES (1, 'da4ef36aaa33034525db337acb0eebf36246afcb46a9b56d3829803a56b9e087', '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a', 'study', 0, 'interrupted', 1760000000, 'owner', 1, '\x7b2274616773223a5b226e696768746c79225d2c2273746172746564223a313736303030303030302e302c2266696e6973686564223a313736303030303030302e302c22636f756e7473223a7b22776f726b2e737563636565646564223a317d2c227370656e74223a5b7b226d6f64656c223a226d222c2273656e6473223a312c22616e7377657273223a312c22696e707574223a332c226f7574707574223a342c226d6f6e6579223a302e352c22646f75627466756c5f6d6f6e6579223a302e307d5d7d', NULL);
INSERT INTO former_store.run OVERRIDING SYSTEM VALUE VALUES (2, '788aac85cbcf924ee9ecea87957bbb12c52be2a03e36a545ac50eada4970115c', '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a', 'study', 0, 'running', 1760000000, 'owner', 1, '\x7b2273746172746564223a313736303030303030302e302c2266696e6973686564223a302e307d', NULL);
INSERT INTO former_store.run_tag VALUES ('nightly', 1760000000, 1);
INSERT INTO former_store.store VALUES (5, '');
INSERT INTO former_store.task VALUES ('\xac8d8342bbb2362d13f0a559a3621bb407011368895164b628a54f7fc33fc43c', 50331648, 'work', 'work', 5, 1, NULL, 1, NULL, NULL, NULL, 1, NULL, NULL, '\x7b22746f6f6b223a302e352c226f7574707574223a317d', 1, '{1,3,5}');
INSERT INTO former_store.task VALUES ('\x879923da020d1533f4d8e921ea7bac61e8ba41d3c89d17a4d14e3a89c6780d5d', 83886080, 'work', 'work', 0, 0, NULL, 0, NULL, NULL, NULL, 1, NULL, NULL, NULL, 1, '{1,6,6}');
INSERT INTO former_store.task VALUES ('\xc100f95c1913f9c72fc1f4ef0847e1e723ffe0bde0b36e5f36c13f81fe8c26ed', 50331649, 'work', 'work', 1, 2, 'owner', 2, 1, NULL, NULL, 2, NULL, NULL, NULL, 2, '{2,3,4,1,3,3}');
SELECT pg_catalog.setval('former_store.command_n_seq', 1, false);
SELECT pg_catalog.setval('former_store.commit_number', 13, true);
SELECT pg_catalog.setval('former_store.run_n_seq', 2, true);
SELECT pg_catalog.setval('former_store.shared_run_n_seq', 1, false);
ALTER TABLE ONLY former_store.blob
    ADD CONSTRAINT blob_pkey PRIMARY KEY (digest);
ALTER TABLE ONLY former_store.call
    ADD CONSTRAINT call_pkey PRIMARY KEY (key);
ALTER TABLE ONLY former_store.command
    ADD CONSTRAINT command_id_key UNIQUE (id);
ALTER TABLE ONLY former_store.command
    ADD CONSTRAINT command_pkey PRIMARY KEY (n);
ALTER TABLE ONLY former_store.duty
    ADD CONSTRAINT duty_pkey PRIMARY KEY (name);
ALTER TABLE ONLY former_store.event
    ADD CONSTRAINT event_pkey PRIMARY KEY (run, seq);
ALTER TABLE ONLY former_store.head
    ADD CONSTRAINT head_pkey PRIMARY KEY (run);
ALTER TABLE ONLY former_store.leased_range
    ADD CONSTRAINT leased_range_pkey PRIMARY KEY (shared, first);
ALTER TABLE ONLY former_store.member
    ADD CONSTRAINT member_pkey PRIMARY KEY (n);
ALTER TABLE ONLY former_store.model_limit
    ADD CONSTRAINT model_limit_pkey PRIMARY KEY (name);
ALTER TABLE ONLY former_store.model_slot
    ADD CONSTRAINT model_slot_pkey PRIMARY KEY (name, member);
ALTER TABLE ONLY former_store.pool
    ADD CONSTRAINT pool_pkey PRIMARY KEY (shared, scope);
ALTER TABLE ONLY former_store.pool_share
    ADD CONSTRAINT pool_share_pkey PRIMARY KEY (shared, scope, member);
ALTER TABLE ONLY former_store.run
    ADD CONSTRAINT run_id_key UNIQUE (id);
ALTER TABLE ONLY former_store.run
    ADD CONSTRAINT run_pkey PRIMARY KEY (n);
ALTER TABLE ONLY former_store.run_tag
    ADD CONSTRAINT run_tag_pkey PRIMARY KEY (tag, at, run);
ALTER TABLE ONLY former_store.shared_run
    ADD CONSTRAINT shared_run_id_key UNIQUE (id);
ALTER TABLE ONLY former_store.shared_run
    ADD CONSTRAINT shared_run_pkey PRIMARY KEY (n);
ALTER TABLE ONLY former_store.task
    ADD CONSTRAINT task_pkey PRIMARY KEY (id);
CREATE INDEX call_asked ON former_store.call USING btree (asked) WHERE (asked IS NOT NULL);
CREATE INDEX leased_range_open ON former_store.leased_range USING btree (shared, state, first) WHERE (state <> 'done'::text);
CREATE INDEX member_gone ON former_store.member USING btree (n) WHERE ((state <> 'alive'::text) AND (NOT released));
CREATE INDEX member_lease ON former_store.member USING btree (until) WHERE (state = 'alive'::text);
CREATE INDEX member_run ON former_store.member USING btree (shared_run) WHERE (shared_run IS NOT NULL);
CREATE UNIQUE INDEX run_name ON former_store.run USING btree (name) WHERE (name IS NOT NULL);
CREATE INDEX run_planned ON former_store.run USING btree (planned);
CREATE INDEX run_status ON former_store.run USING btree (status, n);
CREATE INDEX run_study ON former_store.run USING btree (study, n);
CREATE INDEX task_active ON former_store.task USING btree (run) WHERE ((state >= 1) AND (state <= 4));
CREATE INDEX task_job ON former_store.task USING btree (class, state, n) WHERE (kind = 'job'::text);
CREATE INDEX task_queued ON former_store.task USING btree (class, ((- COALESCE(priority, 0))), n) WHERE (state = 0);
CREATE INDEX task_ranges ON former_store.task USING btree (n) WHERE (cardinality(events) > 3);
