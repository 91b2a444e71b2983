use crate::config::Env;

#[test]
fn an_empty_variable_is_as_if_unset() {
    let env = Env::from_pairs([("A", "1"), ("B", "")]);
    assert_eq!(env.get("A").unwrap().as_deref(), Some("1"));
    assert_eq!(env.get("B").unwrap(), None);
    assert_eq!(env.get("C").unwrap(), None);
    assert_eq!(Env::empty().get("A").unwrap(), None);
}

#[test]
fn the_process_environment_is_read() {
    assert!(Env::process().get("PATH").unwrap().is_some());
    assert_eq!(Env::process().get("ANTFLY_NO_SUCH_VARIABLE").unwrap(), None);
}
