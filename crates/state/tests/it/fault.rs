//! Crash points in real processes: `cargo nextest run -p state --features fault-points`.

#[test]
fn without_the_feature_a_point_is_nothing() {
    if cfg!(not(feature = "fault-points")) {
        state::fault_point!("state/test/child");
    }
}

#[cfg(feature = "fault-points")]
mod with_the_feature {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    /// The signal that `abort` ends a process with.
    const SIGABRT: i32 = 6;

    fn passes_before_the_end(crash_at: &str) -> (usize, Option<i32>) {
        let mut child = Command::new(std::env::current_exe().expect("own path"));
        child.args([
            "--exact",
            "fault::with_the_feature::child",
            "--ignored",
            "--nocapture",
        ]);
        let output = child.env("SPX_CRASH_AT", crash_at).output().expect("child");
        let lines = String::from_utf8_lossy(&output.stdout);
        (
            lines.lines().filter(|line| line.contains("passed")).count(),
            output.status.signal(),
        )
    }

    #[test]
    fn a_process_aborts_at_its_point() {
        assert_eq!(passes_before_the_end("state/test/child"), (0, Some(SIGABRT)));
        assert_eq!(passes_before_the_end("state/test/child:3"), (2, Some(SIGABRT)));
        assert_eq!(
            passes_before_the_end("state/test/child:9").0,
            6,
            "never reached; the last line is the harness's"
        );
        assert_eq!(passes_before_the_end("state/test").1, None);
    }

    #[test]
    #[ignore = "the child process of a_process_aborts_at_its_point"]
    fn child() {
        for pass in 0..5 {
            state::fault_point!("state/test/child");
            println!("passed {pass}");
        }
    }
}
