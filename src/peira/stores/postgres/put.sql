-- Where the events about a task are: run, first and last number of each range, newest first. A range also stands
-- for the 1,000 events behind its last one, so that it changes seldom.
CREATE OR REPLACE FUNCTION extended(p_known bigint[], p_more bigint[]) RETURNS bigint[] LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN p_known[1] = p_more[1] AND p_more[2] <= p_known[3] + 1000
        THEN ARRAY[p_known[1], p_known[2], greatest(p_known[3], p_more[3])] || p_known[4:]
        ELSE p_more || p_known
    END
$$;

-- One commit: every row and event of it, or nothing. The caller has folded the events in memory, from rows whose
-- versions it names; if any of them has changed since, PE001 is raised and the caller folds again.
--
-- Rows are locked in one order by everybody, so that commits wait for each other and never deadlock: the writer's
-- own row, blobs, runs by number, tasks by id, calls by key. Numbers and times of events are taken when all of
-- those are held: so they are in the order of commits wherever two commits have anything to do with each other.
CREATE OR REPLACE FUNCTION put(
    p_me bigint, p_token bigint, p_at double precision,
    p_b_digest bytea[], p_b_codec text[], p_b_data bytea[], p_b_size bigint[],
    p_t_id bytea[], p_t_kind text[], p_t_class text[], p_t_state smallint[], p_t_epoch integer[], p_t_owner text[],
    p_t_attempts integer[], p_t_interruptions integer[], p_t_priority integer[], p_t_not_before double precision[],
    p_t_run integer[], p_t_reused bytea[], p_t_rest bytea[], p_t_result bytea[], p_t_version integer[],
    p_t_place integer[], p_t_head integer[], p_t_first integer[], p_t_last integer[],
    p_h_run integer[], p_h_events integer[], p_h_version integer[], p_h_change integer[],
    p_r_id bytea[], p_r_version integer[], p_r_head integer[], p_r_first integer[], p_r_last integer[],
    p_c_key bytea[], p_c_task bytea[], p_c_name text[], p_c_state text[], p_c_value bytea[], p_c_blob text[],
    p_c_rest bytea[], p_c_head integer[], p_c_offset integer[], p_c_model text[], p_c_input bigint[],
    p_c_output bigint[], p_c_cost double precision[], p_c_version integer[],
    p_e_head integer[], p_e_offset integer[], p_e_body bytea[],
    OUT o_at double precision, OUT o_first bigint[]
) LANGUAGE plpgsql AS $$
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
