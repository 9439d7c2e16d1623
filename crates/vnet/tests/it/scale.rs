//! What a change costs with many rules: printed, and bounded against a pass without differences.

use std::time::Instant;

use vnet::{Generation, Outcome};

use crate::lab::{Lab, block, group, network, port, tcp};

#[test]
fn a_change_among_many_rules_is_quick() {
    let lab = Lab::new();
    let mut program = network("net");
    for index in 0..50u8 {
        let rules = (0..60)
            .map(|rule| tcp(1000 + rule, block(&format!("10.{index}.{rule}.0/24"))))
            .collect();
        program
            .groups
            .push(group(&format!("group-{index}"), rules, vec![]));
    }
    for last in 10..110u8 {
        let names = [
            format!("group-{}", last % 50),
            format!("group-{}", (last + 7) % 50),
        ];
        program
            .ports
            .push(port(&format!("p{last}"), 1, last, &[&names[0], &names[1]]));
    }
    let small = network("small");
    let started = Instant::now();
    lab.apply(&small);
    let first_small = started.elapsed();
    let started = Instant::now();
    lab.apply(&small);
    println!(
        "empty network: first {first_small:?}, unchanged {:?}",
        started.elapsed()
    );
    let timed = |program: &vnet::NetworkProgram| {
        let started = Instant::now();
        (lab.apply(program).outcome, started.elapsed())
    };
    let (outcome, first) = timed(&program);
    assert_eq!(outcome, Outcome::Changed);
    let (outcome, same) = timed(&program);
    assert_eq!(outcome, Outcome::Unchanged);
    program.groups[3].ingress.pop();
    program.generation = Generation(2);
    let (outcome, change) = timed(&program);
    assert_eq!(outcome, Outcome::Changed);
    println!("100 ports, 3000 rules: first {first:?}, unchanged {same:?}, one rule {change:?}");
    assert!(
        change < same * 10,
        "a change costs {change:?}, finding none {same:?}"
    );
}
