//! The refusals of §2.1 (R3): every engine checks every request here before it does anything, so all accept and
//! refuse the same ones. Pure; called by each engine, and by the transaction builder's tests.

use super::{Compare, Condition, Op, Over, ReadOp, ReadRequest, Txn};
use crate::key::{Key, KeyRange};
use crate::limits;
use crate::result::BoundsError;
use std::collections::BTreeSet;

/// Refuses a read outside the bounds.
pub fn check_read(request: &ReadRequest) -> Result<(), BoundsError> {
    check_count("reads", request.ops.len(), limits::READ_OPS_MAX)?;
    for op in &request.ops {
        match op {
            ReadOp::Get(key) => check_key(key)?,
            ReadOp::Range { limit, .. } => {
                if *limit == 0 || *limit > limits::PAGE_KEYS_MAX {
                    return Err(BoundsError::PageLimit { limit: *limit });
                }
            }
        }
    }
    Ok(())
}

/// Refuses a transaction outside the bounds; answers its size in bytes.
pub fn check_txn(txn: &Txn) -> Result<usize, BoundsError> {
    check_count("compares", txn.compares.len(), limits::TXN_OPS_MAX)?;
    let mut bytes = 0;
    for compare in &txn.compares {
        bytes += check_compare(compare)?;
    }
    for branch in [&txn.then, &txn.otherwise] {
        check_count("operations", branch.len(), limits::TXN_OPS_MAX)?;
        bytes += check_branch(branch)?;
    }
    if bytes > limits::TXN_BYTES_MAX {
        return Err(BoundsError::TxnBytes { bytes });
    }
    Ok(bytes)
}

fn check_compare(compare: &Compare) -> Result<usize, BoundsError> {
    let over = match &compare.over {
        Over::Key(key) => {
            check_key(key)?;
            key.len()
        }
        Over::Range(range) => range.start.len() + range.end.len(),
    };
    let value = match &compare.condition {
        Condition::Value(_, value) => value.len(),
        Condition::ModRevision(..) | Condition::CreateRevision(..) | Condition::Version(..) => 8,
    };
    Ok(over + value)
}

fn check_branch(ops: &[Op]) -> Result<usize, BoundsError> {
    let mut bytes = 0;
    let mut written: BTreeSet<&Key> = BTreeSet::new();
    let mut deleted: Vec<&KeyRange> = Vec::new();
    for op in ops {
        match op {
            Op::Put { key, value } => {
                check_key(key)?;
                if value.len() > limits::VALUE_BYTES_MAX {
                    return Err(BoundsError::ValueLength {
                        key: key.clone(),
                        bytes: value.len(),
                    });
                }
                bytes += key.len() + value.len();
                if !written.insert(key) {
                    return Err(BoundsError::WrittenTwice { key: key.clone() });
                }
            }
            Op::Delete(key) => {
                check_key(key)?;
                bytes += key.len();
                if !written.insert(key) {
                    return Err(BoundsError::WrittenTwice { key: key.clone() });
                }
            }
            Op::DeleteRange(range) => {
                bytes += range.start.len() + range.end.len();
                deleted.push(range);
            }
        }
    }
    for (position, range) in deleted.iter().enumerate() {
        if range.is_empty() {
            continue;
        }
        if let Some(key) = written.range::<&Key, _>(&range.start..&range.end).next() {
            return Err(BoundsError::InsideDeleted { key: (*key).clone() });
        }
        for other in &deleted[position + 1..] {
            if !other.is_empty() && range.start < other.end && other.start < range.end {
                return Err(BoundsError::InsideDeleted {
                    key: other.start.clone(),
                });
            }
        }
    }
    Ok(bytes)
}

fn check_key(key: &Key) -> Result<(), BoundsError> {
    if key.is_empty() || key.len() > limits::KEY_BYTES_MAX {
        return Err(BoundsError::KeyLength { bytes: key.len() });
    }
    Ok(())
}

fn check_count(what: &'static str, count: usize, max: usize) -> Result<(), BoundsError> {
    if count > max {
        Err(BoundsError::Count { what, count })
    } else {
        Ok(())
    }
}
