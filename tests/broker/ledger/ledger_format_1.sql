-- A ledger file of format 1, from before there were notes: its tables as they were made then, and three receipts.
PRAGMA journal_mode = WAL;
BEGIN;
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE streams (
  stream INTEGER PRIMARY KEY, adapter_id TEXT NOT NULL, harness_session_id TEXT NOT NULL,
  first_position INTEGER NOT NULL, started_at_epoch_s INTEGER NOT NULL,
  UNIQUE (adapter_id, harness_session_id));
CREATE TABLE rows (
  position INTEGER PRIMARY KEY, stream INTEGER NOT NULL, previous INTEGER NOT NULL, sequence INTEGER,
  at_epoch_s INTEGER NOT NULL, event TEXT NOT NULL, status TEXT NOT NULL,
  ended INTEGER NOT NULL, open_frames TEXT, harness_sequence INTEGER,
  link BLOB NOT NULL, receipt BLOB NOT NULL);
CREATE TABLE keys (key TEXT PRIMARY KEY, digest BLOB NOT NULL, position INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE tips (stream INTEGER PRIMARY KEY, position INTEGER NOT NULL);
CREATE TABLE bases (
  stream INTEGER PRIMARY KEY, position INTEGER NOT NULL, sequence INTEGER,
  at_epoch_s INTEGER NOT NULL, event TEXT NOT NULL, status TEXT NOT NULL,
  ended INTEGER NOT NULL, open_frames TEXT, harness_sequence INTEGER, link BLOB NOT NULL);
CREATE TABLE marks (stream INTEGER, position INTEGER, PRIMARY KEY (stream, position)) WITHOUT ROWID;
CREATE TABLE seconds (second INTEGER PRIMARY KEY, position INTEGER NOT NULL);
CREATE VIEW intake AS SELECT position, stream, previous, sequence, at_epoch_s, event, status,
  ended, open_frames, harness_sequence, link, receipt, '' AS key, x'' AS digest FROM rows;
CREATE TRIGGER take INSTEAD OF INSERT ON intake WHEN NEW.position IS NOT NULL BEGIN
  INSERT INTO rows VALUES (NEW.position, NEW.stream, NEW.previous, NEW.sequence, NEW.at_epoch_s, NEW.event,
    NEW.status, NEW.ended, NEW.open_frames, NEW.harness_sequence, NEW.link, NEW.receipt);
  INSERT INTO keys SELECT NEW.key, NEW.digest, NEW.position WHERE NEW.key IS NOT NULL;
  INSERT INTO marks SELECT NEW.stream, NEW.position WHERE NEW.sequence % 64 = 0;
END;
INSERT INTO keys VALUES('alice' || char(31) || 'codex' || char(31) || 'k000001',X'30313233343536373839616263646566',1);
INSERT INTO keys VALUES('alice' || char(31) || 'codex' || char(31) || 'k000002',X'30313233343536373839616263646566',2);
INSERT INTO keys VALUES('alice' || char(31) || 'codex' || char(31) || 'k000003',X'30313233343536373839616263646566',3);
INSERT INTO meta VALUES('epoch','01010101010101010101010101010101');
INSERT INTO meta VALUES('floor',0);
INSERT INTO meta VALUES('pointed',0);
INSERT INTO meta VALUES('pruned',0);
INSERT INTO rows VALUES(1,1,0,1,1790000000,'frame.opened','observed',0,NULL,NULL,X'A146959291B75C0D5FDC511067123FE50FA44E3B57F1F5493199BFA12AF94838',CAST('{"adapter_id":"codex","at_epoch_s":1790000000,"capability_degradations":[],"client_id":"alice","event":"frame.opened","event_id":"evt_000001","failure_class":null,"harness_run_id":null,"harness_session_id":"s1","harness_task_id":null,"idempotency_key":"k000001","integration_mode":"native_hook","invocation_id":"inv_1","parent_receipt_id":null,"payload_receipts":[],"receipt_id":"lfr_000001","retry_class":null,"schema_version":"lifeloop.v0.2","sequence":1,"status":"observed","telemetry_summary":{},"warnings":[]}' AS BLOB));
INSERT INTO rows VALUES(2,1,1,2,1790000000,'frame.opened','observed',0,NULL,NULL,X'5BA7945FFC1834FB9778F8F3D9829F26E074E55D89101E4F07BA642E29A20EC5',CAST('{"adapter_id":"codex","at_epoch_s":1790000000,"capability_degradations":[],"client_id":"alice","event":"frame.opened","event_id":"evt_000002","failure_class":null,"harness_run_id":null,"harness_session_id":"s1","harness_task_id":null,"idempotency_key":"k000002","integration_mode":"native_hook","invocation_id":"inv_1","parent_receipt_id":null,"payload_receipts":[],"receipt_id":"lfr_000002","retry_class":null,"schema_version":"lifeloop.v0.2","sequence":2,"status":"observed","telemetry_summary":{},"warnings":[]}' AS BLOB));
INSERT INTO rows VALUES(3,1,2,3,1790000000,'frame.opened','observed',0,NULL,NULL,X'675070F047895D3CD37A89E80AFB9B55194D31D8431166981791370040ADB706',CAST('{"adapter_id":"codex","at_epoch_s":1790000000,"capability_degradations":[],"client_id":"alice","event":"frame.opened","event_id":"evt_000003","failure_class":null,"harness_run_id":null,"harness_session_id":"s1","harness_task_id":null,"idempotency_key":"k000003","integration_mode":"native_hook","invocation_id":"inv_1","parent_receipt_id":null,"payload_receipts":[],"receipt_id":"lfr_000003","retry_class":null,"schema_version":"lifeloop.v0.2","sequence":3,"status":"observed","telemetry_summary":{},"warnings":[]}' AS BLOB));
INSERT INTO seconds VALUES(1790000000,1);
INSERT INTO streams VALUES(1,'codex','s1',1,1790000000);
PRAGMA user_version = 1;
COMMIT;
