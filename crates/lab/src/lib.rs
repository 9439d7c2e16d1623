//! Test only: fake engines, fault injection, process harness, checkers.
