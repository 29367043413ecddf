-- agreement.list_recent reads them, however long ago they ended; there are hardly ever any.
CREATE INDEX agreement_awaits_stop_index ON agreement (agreement) WHERE record ->> 'awaits_stop' = 'true';
