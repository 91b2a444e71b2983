//! Ten tasks share a quota: two at a time, five a second after the first three, and one of them is told to cool down.

use std::time::Duration;

use antfly_limiter::{Limiter, Policy, ScopeKey, Time};

#[tokio::main]
#[allow(clippy::print_stdout, reason = "an example shows something")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Limiter::new(Time::thread());
    let policy = Policy::builder()
        .requests_per_minute(300)
        .burst(3)
        .max_concurrency(2)
        .tokens_per_minute(60_000)
        .build()?;
    let lease = limiter.lease(&ScopeKey::new([("job", "resize images")]), policy)?;

    let start = lease.time().now();
    let tasks: Vec<_> = (0..10_u64)
        .map(|number| {
            let lease = lease.clone();
            tokio::spawn(async move {
                let deadline = start.saturating_add(Duration::from_secs(10));
                let permit = lease.admit(100 * number, Some(deadline)).await?;
                let since = permit.admitted_at().saturating_duration_since(start);
                println!("{number} goes after {since:?}");
                // The work. The sixth is told to come back later, and so is everyone.
                if number == 5 {
                    lease.cool_for(Duration::from_millis(700));
                }
                drop(permit);
                Ok::<_, antfly_limiter::AdmitError>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    println!("{:?}", lease.snapshot().counters);
    Ok(())
}
