//! The store: tables, transactions, watches, and the reconcile loop, over the engines redb and memory.
