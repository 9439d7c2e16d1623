//! What all Describes have in common: explicit ids, filters, pages.
//!
//! A Describe lists the account's records, keeps the ids named (all must exist), then those that pass the filters, and
//! cuts the page. Items are ordered by id, which is also what page tokens resume after. Validation comes before
//! `DryRun`, and `DryRun` before anything is read.

use super::Network;
use crate::capability::tags::TagIndex;
use crate::limits;
use crate::ops::shared::check_shape;
use aws_shapes::{OperationSchema, ec2};
use aws_types::filter::{Filters, RawFilter, Values};
use aws_types::page::{PageRequest, QueryBinding};
use aws_types::{AwsError, ErrorCode, Tags, catalogue};
use aws_wire::call::Call;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Page sizes of most Describes.
pub(crate) const PAGE_5_TO_1000: RangeInclusive<i32> = 5..=1000;

/// What the members of a Describe request say.
pub(crate) struct Asked<'a> {
    /// The explicit ids.
    pub ids: &'a [String],
    /// `Filter.N`.
    pub filters: &'a [ec2::Filter],
    /// `MaxResults`.
    pub max_results: Option<i32>,
    /// `NextToken`.
    pub next_token: Option<&'a str>,
}

/// What a Describe operation is.
pub(crate) struct Described {
    /// Its schema.
    pub schema: &'static OperationSchema,
    /// Page sizes it accepts.
    pub page_sizes: RangeInclusive<i32>,
    /// The filters it knows.
    pub filters: &'static [&'static str],
    /// Prefix of its ids.
    pub prefix: &'static str,
    /// Error of ids of another shape.
    pub malformed: ErrorCode,
    /// Error of ids that do not exist.
    pub absent: fn(&[String]) -> AwsError,
}

/// A Describe request that was checked.
pub(crate) struct Query {
    ids: BTreeSet<String>,
    filters: Filters,
    page: PageRequest,
    binding: QueryBinding,
    absent: fn(&[String]) -> AwsError,
}

impl Query {
    /// Checks a request.
    ///
    /// # Errors
    /// The malformed error of an id; `InvalidParameterValue`, `InvalidParameterCombination` for filters and paging;
    /// `DryRunOperation`.
    pub(crate) fn read(
        network: &Network,
        call: &Call,
        described: &Described,
        asked: &Asked<'_>,
    ) -> Result<Query, AwsError> {
        if asked.ids.len() > limits::DESCRIBED_IDS_MAX {
            return Err(catalogue::INVALID_PARAMETER_VALUE.error(format!(
                "The maximum number of ids in one request is {}",
                limits::DESCRIBED_IDS_MAX
            )));
        }
        for id in asked.ids {
            check_shape(id, described.prefix, described.malformed)?;
        }
        let filters = Filters::parse(raw_filters(asked.filters), described.filters)?;
        let binding = call.page_binding(described.schema);
        let page = PageRequest::ec2(
            asked.max_results,
            asked.next_token,
            !asked.ids.is_empty(),
            described.page_sizes.clone(),
            &network.settings().page_key,
            &binding,
        )?;
        call.finish_dry_run()?;
        Ok(Query {
            ids: asked.ids.iter().cloned().collect(),
            filters,
            page,
            binding,
            absent: described.absent,
        })
    }

    /// Keeps the records that were named; all of them if none was.
    ///
    /// # Errors
    /// The "not found" error that names every id without a record.
    pub(crate) fn select<T>(&self, records: Vec<T>, id_of: impl Fn(&T) -> &str) -> Result<Vec<T>, AwsError> {
        if self.ids.is_empty() {
            return Ok(records);
        }
        let kept: Vec<T> = records
            .into_iter()
            .filter(|record| self.ids.contains(id_of(record)))
            .collect();
        let found: BTreeSet<&str> = kept.iter().map(&id_of).collect();
        let missing: Vec<String> = self
            .ids
            .iter()
            .filter(|id| !found.contains(id.as_str()))
            .cloned()
            .collect();
        if missing.is_empty() {
            Ok(kept)
        } else {
            Err((self.absent)(&missing))
        }
    }

    /// The records that pass the filters, cut to the page, and the token of the next one.
    pub(crate) fn page<'a, T>(
        &self,
        network: &Network,
        records: &'a [T],
        id_of: impl Fn(&T) -> &str,
        tags: &'a TagIndex,
        values: impl Fn(&'a T, &str) -> Values<'a>,
    ) -> (Vec<&'a T>, Option<String>) {
        self.page_with(network, records, &id_of, |record| tags.of(id_of(record)), values)
    }

    /// As [`Query::page`], where the tags are not found by the id alone.
    pub(crate) fn page_with<'a, T>(
        &self,
        network: &Network,
        records: &'a [T],
        id_of: impl Fn(&T) -> &str,
        tags: impl Fn(&T) -> &'a Tags,
        values: impl Fn(&'a T, &str) -> Values<'a>,
    ) -> (Vec<&'a T>, Option<String>) {
        let passing = records
            .iter()
            .filter(|record| self.filters.matches(tags(record), |name| values(record, name)));
        self.page.cut(
            passing,
            |record| id_of(record).to_owned(),
            &network.settings().page_key,
            &self.binding,
        )
    }
}

/// Filters as requests carry them.
pub(crate) fn raw_filters(filters: &[ec2::Filter]) -> impl Iterator<Item = RawFilter> {
    filters.iter().map(|filter| RawFilter {
        name: filter.name.clone(),
        values: filter.values.clone(),
    })
}
