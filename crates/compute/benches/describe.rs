//! How long DescribeInstances takes over a store of four thousand instances: a page of a thousand, and one by id.
//!
//! `cargo bench -p compute --bench describe`. The store is in memory and the operation is called as the gateway calls it,
//! without the wire; `benches/` compares whole clouds with moto. A page costs a few range reads, so its time must not grow
//! with the number of instances outside of it.

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/it/cloud.rs"]
mod cloud;
#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/it/node.rs"]
mod node;

use aws_shapes::ec2::{self, operations};
use cloud::{Cloud, node_record};
use std::time::{Duration, Instant};

/// What one default subnet (/20) has addresses for.
const LAUNCHES: usize = 4;
const INSTANCES_PER_LAUNCH: i32 = 1000;
const ROUNDS: u32 = 20;

async fn time<F: Future>(rounds: u32, run: impl Fn() -> F) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..rounds {
        let started = Instant::now();
        run().await;
        best = best.min(started.elapsed());
    }
    best
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let cloud = Cloud::with(node_record(16_384, 64 * 1024 * 1024)).await;
    let page = || async {
        let request = ec2::DescribeInstancesRequest {
            max_results: Some(1000),
            ..Default::default()
        };
        cloud
            .call::<operations::DescribeInstances>(request)
            .await
            .expect("a page")
    };
    let mut id = String::new();
    for launch in 0..LAUNCHES {
        let started = Instant::now();
        let reservation = cloud
            .call::<operations::RunInstances>(cloud.launch(INSTANCES_PER_LAUNCH))
            .await
            .expect("launched");
        let took = started.elapsed();
        id = reservation.instances[0].instance_id.clone().expect("an id");
        if launch == 0 || launch == LAUNCHES - 1 {
            println!("launch {launch}: {INSTANCES_PER_LAUNCH} instances in {took:?}");
            println!("  page of 1000: {:?}", time(ROUNDS, page).await);
        }
    }
    let by_id = || async {
        let request = ec2::DescribeInstancesRequest {
            instance_ids: vec![id.clone()],
            ..Default::default()
        };
        cloud
            .call::<operations::DescribeInstances>(request)
            .await
            .expect("one")
    };
    println!("by id: {:?}", time(ROUNDS, by_id).await);
}
