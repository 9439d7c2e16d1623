//! Throttle: a bucket per account and action, and one per account (identity.md R36). Costs no store read.
//!
//! A call takes a token from both; if either is empty it is refused with the time after which it may come again. Full
//! buckets are forgotten when room is needed, since a fresh bucket is full.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_types::AccountId;

use crate::limits::{
    RATE_ACCOUNT, RATE_CREATE_ACCOUNT, RATE_INSTANCES, RATE_READ, RATE_WRITE, Rate, THROTTLE_BUCKETS_MAX,
};

/// Whether an action only reads, by its name: AWS's own naming is what its throttles go by.
pub(crate) fn is_read(action: &str) -> bool {
    ["Describe", "Get", "List", "Head", "Lookup", "Simulate", "Decode"]
        .iter()
        .any(|verb| action.starts_with(verb))
}

fn rate_of(action: &str) -> Rate {
    match action {
        "RunInstances" | "StartInstances" | "StopInstances" | "TerminateInstances" => RATE_INSTANCES,
        "CreateAccount" => RATE_CREATE_ACCOUNT,
        _ if is_read(action) => RATE_READ,
        _ => RATE_WRITE,
    }
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Bucket {
    fn refill(&mut self, rate: Rate, now: Instant) {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * rate.per_second;
        self.tokens = (self.tokens + gained).min(rate.burst);
        self.at = now;
    }

    /// How long until there is a token.
    fn wait(&self, rate: Rate) -> Option<Duration> {
        (self.tokens < 1.0).then(|| Duration::from_secs_f64((1.0 - self.tokens) / rate.per_second))
    }
}

/// `None` for the account as a whole. Names of actions that do not exist share one bucket.
type BucketKey = (AccountId, Option<&'static str>);

/// The buckets.
pub(crate) struct Throttle {
    buckets: Mutex<HashMap<BucketKey, Bucket>>,
    enabled: bool,
}

impl Throttle {
    pub(crate) fn new(enabled: bool) -> Self {
        Self {
            buckets: Mutex::default(),
            enabled,
        }
    }

    /// Takes a token for a call.
    ///
    /// # Errors
    /// How long to wait, if there is none.
    pub(crate) fn admit(
        &self,
        account: AccountId,
        action: &'static str,
        now: Instant,
    ) -> Result<(), Duration> {
        if !self.enabled {
            return Ok(());
        }
        let rates = [(None, RATE_ACCOUNT), (Some(action), rate_of(action))];
        // Buckets are replaced whole, so the map is usable even if a holder panicked.
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() + rates.len() > THROTTLE_BUCKETS_MAX {
            buckets.retain(|(_, action), bucket| {
                let rate = action.map_or(RATE_ACCOUNT, rate_of);
                bucket.refill(rate, now);
                bucket.tokens < rate.burst
            });
        }
        let mut wait = None;
        for (name, rate) in rates {
            let bucket = buckets.entry((account, name)).or_insert(Bucket {
                tokens: rate.burst,
                at: now,
            });
            bucket.refill(rate, now);
            wait = wait.max(bucket.wait(rate));
        }
        if let Some(wait) = wait {
            return Err(wait);
        }
        for (name, _) in rates {
            if let Some(bucket) = buckets.get_mut(&(account, name)) {
                bucket.tokens -= 1.0;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use aws_types::AccountId;

    use super::Throttle;

    const TENANT: AccountId = AccountId::FIRST_TENANT;

    fn admitted(throttle: &Throttle, account: AccountId, action: &'static str, now: Instant) -> usize {
        (0..10_000)
            .take_while(|_| throttle.admit(account, action, now).is_ok())
            .count()
    }

    #[test]
    fn each_class_has_its_burst_and_its_rate() {
        for (action, burst, per_second) in [
            ("DescribeInstances", 400, 100),
            ("CreateTags", 100, 20),
            ("RunInstances", 40, 2),
            ("TerminateInstances", 40, 2),
        ] {
            let throttle = Throttle::new(true);
            let now = Instant::now();
            assert_eq!(admitted(&throttle, TENANT, action, now), burst, "{action}");
            assert_eq!(
                admitted(&throttle, TENANT, action, now + Duration::from_secs(1)),
                per_second,
                "{action}"
            );
        }
    }

    #[test]
    fn accounts_and_actions_do_not_share_but_one_account_is_bounded() {
        let throttle = Throttle::new(true);
        let now = Instant::now();
        assert_eq!(admitted(&throttle, TENANT, "DescribeVpcs", now), 400);
        assert_eq!(admitted(&throttle, TENANT, "DescribeSubnets", now), 400);
        assert_eq!(
            admitted(&throttle, TENANT, "DescribeImages", now),
            200,
            "the account's own bucket"
        );
        assert_eq!(admitted(&throttle, AccountId::OPERATOR, "DescribeVpcs", now), 400);
    }

    #[test]
    fn a_refusal_says_when_to_come_again() {
        let throttle = Throttle::new(true);
        let now = Instant::now();
        admitted(&throttle, TENANT, "RunInstances", now);
        let wait = throttle.admit(TENANT, "RunInstances", now).expect_err("empty");
        assert!(wait <= Duration::from_millis(500), "{wait:?}");
        throttle
            .admit(TENANT, "RunInstances", now + wait)
            .expect("a token");
    }

    #[test]
    fn it_can_be_switched_off() {
        assert_eq!(
            admitted(&Throttle::new(false), TENANT, "RunInstances", Instant::now()),
            10_000
        );
    }
}
