//! The integration tests of `state`: one conformance suite on every engine, then what is special to one of them.
//!
//! `conformance` states the contract once; the macro below runs each of its cases on `memory` and on `redb`. The etcd
//! engine joins by one more line here.

mod conformance;
mod crash;
mod fault;
mod fixture;
mod reconcile;
mod reopen;

macro_rules! on_every_engine {
    ($($module:ident :: $case:ident),* $(,)?) => {
        mod memory {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $case() {
                    $crate::conformance::$module::$case($crate::fixture::memory()).await;
                }
            )*
        }
        mod redb {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $case() {
                    $crate::conformance::$module::$case($crate::fixture::redb()).await;
                }
            )*
        }
    };
}

on_every_engine! {
    bytes::revisions_count_changes,
    bytes::compares_decide_the_branch,
    bytes::the_same_requests_are_refused,
    bytes::ranges_page_at_one_revision,
    bytes::large_answers_are_cut_and_go_on,
    bytes::the_past_is_readable_until_compacted,
    bytes::deleting_a_range_is_one_revision,
    bytes::lost_answers_are_resolved,
    bytes::the_canary_reads_back,
    linearizable::histories_of_many_clients_have_one_order,
    records::records_round_trip,
    records::indexes_page_at_one_revision,
    records::inserts_and_uniques_are_typed,
    records::indexes_follow_their_records,
    records::a_failing_closure_writes_nothing,
    records::reads_are_compared_and_closures_run_clean,
    records::retries_are_bounded,
    records::contended_counters_lose_nothing,
    records::one_of_many_creators_wins,
    records::guards_see_new_changed_and_gone_rows,
    records::a_transaction_sees_its_own_writes,
    records::unchanged_records_are_not_written,
    records::unreadable_is_not_absent,
    records::older_versions_are_migrated,
    watches::every_change_arrives_once_in_order,
    watches::a_watch_goes_on_where_another_ended,
    watches::typed_changes_carry_old_and_new,
    watches::compaction_is_answered_as_such,
    watches::slow_watchers_are_told_to_list_again,
}
