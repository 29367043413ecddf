-- Reads of single attributes answer the stored text itself, so order of keys and spelling of numbers must survive.
ALTER TABLE node
    ALTER COLUMN registered_services TYPE json,
    ALTER COLUMN user_input TYPE json,
    ALTER COLUMN software_versions TYPE json,
    ALTER COLUMN heartbeat_intervals TYPE json;
ALTER TABLE node_policy
    ALTER COLUMN properties TYPE json,
    ALTER COLUMN constraints TYPE json,
    ALTER COLUMN deployment TYPE json,
    ALTER COLUMN management TYPE json;
ALTER TABLE node_status
    ALTER COLUMN connectivity TYPE json,
    ALTER COLUMN services TYPE json;
ALTER TABLE node_error
    ALTER COLUMN errors TYPE json;
ALTER TABLE node_agreement
    ALTER COLUMN services TYPE json,
    ALTER COLUMN agreement_service TYPE json;
ALTER TABLE agbot_agreement
    ALTER COLUMN service TYPE json;
ALTER TABLE node_management_status
    ALTER COLUMN status TYPE json;
