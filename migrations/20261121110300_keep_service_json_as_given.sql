-- Reads of single attributes answer the stored text itself, so order of keys and spelling of numbers must survive.
ALTER TABLE service
    ALTER COLUMN match_hardware TYPE json,
    ALTER COLUMN required_services TYPE json,
    ALTER COLUMN user_input TYPE json,
    ALTER COLUMN image_store TYPE json;
ALTER TABLE service_policy
    ALTER COLUMN properties TYPE json,
    ALTER COLUMN constraints TYPE json;
ALTER TABLE pattern
    ALTER COLUMN services TYPE json,
    ALTER COLUMN user_input TYPE json,
    ALTER COLUMN secret_binding TYPE json,
    ALTER COLUMN agreement_protocols TYPE json;
ALTER TABLE deployment_policy
    ALTER COLUMN service TYPE json,
    ALTER COLUMN user_input TYPE json,
    ALTER COLUMN secret_binding TYPE json,
    ALTER COLUMN properties TYPE json,
    ALTER COLUMN constraints TYPE json;
ALTER TABLE management_policy
    ALTER COLUMN properties TYPE json,
    ALTER COLUMN constraints TYPE json,
    ALTER COLUMN patterns TYPE json,
    ALTER COLUMN agent_upgrade_policy TYPE json;
