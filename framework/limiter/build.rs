//! Only here because `links` wants it: two versions of this crate in one process would be two quotas.

fn main() {}
