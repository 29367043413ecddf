//! `hzn exchange user`: roles of users and of API keys.

use serde_json::{Value, json};

use super::Hzn;
use crate::support::{Hub, Scratch};

#[tokio::test]
async fn administrator_gives_roles_and_keys_have_them() {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch, &[]).await;
    let mut hzn = Hzn::new(&scratch, &hub, &format!("root/root:{}", hub.root_password()));
    hzn.done("exchange org create acme -d plant");
    hzn.done("exchange user create ann secret-ann ann@acme.com -A");
    hzn.set("HZN_EXCHANGE_USER_AUTH", "ann:secret-ann".to_owned());
    hzn.done("exchange user create vera secret-vera v@acme.com --role viewer");
    hzn.done("exchange user create dora secret-dora d@acme.com");
    hzn.done("exchange user setrole dora deployer --policies shop-*,web");
    let found = hzn.data("exchange user list -a");
    assert_eq!(found["acme/vera"]["role"], "viewer", "{found}");
    assert_eq!(found["acme/dora"]["policies"], json!(["shop-*", "web"]));
    assert_eq!(found["acme/ann"]["role"], Value::Null);
    let table = hzn.run("exchange user list -a --output table").output;
    assert!(table.contains("ROLE") && table.contains("deployer"), "{table}");

    for (line, word) in [
        ("exchange user setrole dora deployer", "needs at least one"),
        ("exchange user setrole dora owner", "must be one of"),
        ("exchange user setrole dora deployer --policies a*b", "policies[0]"),
        ("exchange user create eve secret-eve --role viewer --policies a", "only the role deployer"),
    ] {
        let why = hzn.refused(1, line);
        assert!(why.contains(word), "hzn {line}: {why}");
    }
    let why = hzn.refused(5, "exchange user setrole ann viewer");
    assert!(why.contains("an administrator has no role"), "{why}");

    let dry = hzn.run("exchange user createkey --role viewer --dry-run");
    assert_eq!((dry.status, dry.output.as_str()), (0, ""), "{}", dry.errors);
    let key = hzn.data("exchange user createkey -l dashboard --role viewer --expires-in 3600");
    assert_eq!((&key["role"], &key["owner"]), (&json!("viewer"), &json!("acme/ann")), "{key}");
    assert!(key["expiresAt"].is_string(), "{key}");
    let value = key["value"].as_str().expect("a value");
    hzn.set("HZN_EXCHANGE_USER_AUTH", format!("apikey:{value}"));
    assert_eq!(hzn.data("exchange user list")["acme/ann"]["role"], "viewer");
    let why = hzn.refused(5, "exchange user setrole dora user");
    assert!(why.contains("403") || why.contains("does not have authorization"), "{why}");
    let inherited = hzn.data("exchange user createkey");
    assert_eq!(inherited["role"], "viewer", "{inherited}");
    let id = inherited["id"].as_str().expect("an id");
    hzn.done(&format!("exchange user removekey ann {id}"));
    hzn.refused(8, &format!("exchange user removekey ann {id}"));

    hzn.set("HZN_EXCHANGE_USER_AUTH", "vera:secret-vera".to_owned());
    hzn.done("exchange user setpassword vera secret-vera-2");
    hzn.set("HZN_EXCHANGE_USER_AUTH", "ann:secret-ann".to_owned());
    hzn.done("exchange user setrole vera user");
    assert_eq!(hzn.data("exchange user list vera")["acme/vera"]["role"], Value::Null);
}
