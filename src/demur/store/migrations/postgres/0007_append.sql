-- Rows go to the ends of their chains inside the server, in one statement: no writer holds the head
-- of a chain while it waits for its network, or while it is frozen.
--
-- A row is an array of the columns of `decision_records` in their order, without `confirmed` and
-- the link, and then an array of the columns of `approvals` if the decision opens one. The rows of
-- a tenant stand together and tenants in byte order, so that two writers cannot deadlock. The
-- answer has an element for each row: its place, the hash of the link before it and its own hash,
-- or a space and the id of the decision that has its request already.
--
-- A later migration that needs other columns adds functions with other names: while machines are
-- upgraded one by one, some still call these.
CREATE OR REPLACE FUNCTION demur_append_rows(new_rows text[], OUT places text[]) LANGUAGE plpgsql AS $$
DECLARE
    one text[];
    chain text;
    head_seq bigint;
    head_hash text;
    link text;
    approval text[];
BEGIN
    FOREACH one SLICE 1 IN ARRAY new_rows LOOP
        IF chain IS DISTINCT FROM one[3] THEN
            IF chain IS NOT NULL THEN
                UPDATE chain_heads SET seq = head_seq, record_hash = head_hash
                WHERE tenant = chain AND seq < head_seq;
            END IF;
            chain := one[3];
            SELECT seq, record_hash INTO head_seq, head_hash
            FROM chain_heads WHERE tenant = chain FOR UPDATE;
            IF NOT FOUND THEN
                INSERT INTO chain_heads (tenant, seq, record_hash)
                VALUES (chain, 0, 'sha256:' || repeat('0', 64))
                ON CONFLICT DO NOTHING;
                SELECT seq, record_hash INTO STRICT head_seq, head_hash
                FROM chain_heads WHERE tenant = chain FOR UPDATE;
            END IF;
        END IF;
        -- INVARIANT: each record follows the one stored before it for its tenant.
        link := 'sha256:' || encode(sha256(convert_to(concat_ws(
            E'\n', 'demur chain.v1', chain, head_seq + 1, one[1], head_hash, one[16]
        ), 'UTF8')), 'hex');
        INSERT INTO decision_records (
            decision_id, created_at, tenant, request_id, root_id, subject, verdict,
            decision_output, refusal_class, action_type, amount_value, amount_currency,
            reason_codes, policy_digest, registry_digest, record, sealed,
            seq, previous_hash, record_hash
        ) VALUES (
            one[1], one[2]::timestamptz, chain, one[4], one[5], one[6], one[7],
            one[8], one[9], one[10], one[11]::double precision, one[12],
            one[13]::text[], one[14], one[15], one[16]::json, one[17]::json,
            head_seq + 1, head_hash, link
        ) ON CONFLICT (tenant, request_id) WHERE request_id IS NOT NULL DO NOTHING;
        IF FOUND THEN
            places := places || concat_ws(' ', head_seq + 1, head_hash, link);
            head_seq := head_seq + 1;
            head_hash := link;
            IF one[18] IS NOT NULL THEN
                approval := one[18];
                INSERT INTO approvals (
                    decision_id, tenant, action_type, reason_codes, kinds, needed, requested_at,
                    expires_at, group_name, state, closed_at, closed_by, note, resolution_id,
                    notified
                ) VALUES (
                    approval[1], approval[2], approval[3], approval[4], approval[5],
                    approval[6]::integer, approval[7], approval[8], approval[9], approval[10],
                    approval[11], approval[12], approval[13], approval[14], approval[15]
                ) ON CONFLICT DO NOTHING;
            END IF;
        ELSE
            places := places || (
                SELECT ' ' || decision_id FROM decision_records
                WHERE tenant = chain AND request_id = one[4]
            );
        END IF;
    END LOOP;
    UPDATE chain_heads SET seq = head_seq, record_hash = head_hash
    WHERE tenant = chain AND seq < head_seq;
END $$;

-- Commits twice with `wait_for_disk`. The first commit lets go of the chains before the disk has
-- it, so that the next writer begins at once. A crash loses the end of the log, never its middle,
-- and the second commit brings all before it to disk; its caller waits for that one.
CREATE OR REPLACE PROCEDURE demur_store_rows(
    new_rows text[], wait_for_disk boolean, INOUT places text[]
) LANGUAGE plpgsql AS $$
BEGIN
    places := demur_append_rows(new_rows);
    IF wait_for_disk THEN
        SET LOCAL synchronous_commit = off;
        COMMIT;
        PERFORM pg_logical_emit_message(true, 'demur', '');
    END IF;
END $$;
