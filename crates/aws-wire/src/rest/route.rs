//! Finds the operation of a REST request.
//!
//! A route is a method, a path template whose labels take one segment (`{Bucket}`) or all the rest (`{Key+}`), fixed
//! parts of the query string, and required members elsewhere (`Route::needs`) that tell operations with one template
//! apart. All routes of a service are tried, built or not, and the most specific one that fits wins, so that an
//! operation that is not built is never taken for one that is.

use aws_shapes::schema::{OperationSchema, Route, ServiceSchema};
use aws_shapes::value::DecodeError;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use crate::protocol::Detected;

/// How well a route fits: fixed query parts and needs, then fixed path segments, then plain labels over greedy ones.
type Fit = (usize, usize, usize);

/// The operation whose route fits best.
pub(super) fn find(service: &'static ServiceSchema, parts: &Parts) -> Option<Detected> {
    let known = service
        .operations
        .iter()
        .map(|operation| (Detected::Known(operation), operation.route));
    let names = service.unbuilt_operations.iter().zip(service.unbuilt_routes);
    let unbuilt = names.map(|(name, route)| (Detected::Unbuilt(name), *route));
    let mut best: Option<(Fit, Detected)> = None;
    for (detected, route) in known.chain(unbuilt) {
        if let Some(fit) = fit(&route, parts)
            && best.as_ref().is_none_or(|(best, _)| fit > *best)
        {
            best = Some((fit, detected));
        }
    }
    best.map(|(_, detected)| detected)
}

fn fit(route: &Route, parts: &Parts) -> Option<Fit> {
    if route.method != parts.method.as_str() {
        return None;
    }
    let (template, fixed_query) = route.uri.split_once('?').unwrap_or((route.uri, ""));
    let mut fixed = 0;
    let mut plain = 0;
    walk(template, parts.uri.path(), &mut |label, _| match label {
        Step::Fixed => fixed += 1,
        Step::Label(_) => plain += 1,
        Step::Greedy(_) => {}
    })?;
    let query = || parts.uri.query().unwrap_or_default().split('&');
    let given = |name: &str| query().any(|pair| pair.split('=').next() == Some(name));
    let mut conditions = 0;
    for condition in fixed_query.split('&').filter(|condition| !condition.is_empty()) {
        let fits = match condition.split_once('=') {
            // The id that some models add to tell operations apart; clients send it, others need not.
            Some(("x-id", _)) => continue,
            Some(_) => query().any(|pair| pair == condition),
            None => given(condition),
        };
        if !fits {
            return None;
        }
        conditions += 1;
    }
    for need in route.needs {
        let fits = match need.strip_prefix('?') {
            Some(name) => given(name),
            None => parts.headers.contains_key(*need),
        };
        // A request that lacks a required member still belongs to the operation if no other one fits; it is refused
        // when its members are checked. It counts less than any operation whose needs are met.
        if fits {
            conditions += 1;
        } else if DISTINGUISHING.contains(need) {
            return None;
        }
    }
    Some((conditions, fixed, plain))
}

/// Members without which a request belongs to another operation of the same template (all are S3's).
const DISTINGUISHING: &[&str] = &[
    "?uploadId",
    "?partNumber",
    "?id",
    "x-amz-copy-source",
    "x-amz-rename-source",
];

/// One segment of a template.
enum Step<'t> {
    Fixed,
    Label(&'t str),
    Greedy(&'t str),
}

/// Walks template and path side by side and calls `visit` with each segment; nothing if they do not fit.
fn walk<'t, 'p>(template: &'t str, path: &'p str, visit: &mut dyn FnMut(Step<'t>, &'p str)) -> Option<()> {
    let mut template = template.trim_matches('/');
    let mut path = path.strip_prefix('/').unwrap_or(path);
    loop {
        let (segment, more) = template
            .split_once('/')
            .map_or((template, None), |(head, tail)| (head, Some(tail)));
        if let Some(label) = segment
            .strip_prefix('{')
            .and_then(|label| label.strip_suffix("+}"))
        {
            // What follows a greedy label is fixed or plain; it takes as many segments from the end.
            let after = more.map_or(0, |more| more.split('/').count());
            let mut end = path.len();
            for _ in 0..after {
                end = path[..end].rfind('/')?;
            }
            if end == 0 {
                return None;
            }
            visit(Step::Greedy(label), &path[..end]);
            match more {
                Some(more) => {
                    template = more;
                    path = &path[end + 1..];
                    continue;
                }
                None => return Some(()),
            }
        }
        let (given, rest) = path
            .split_once('/')
            .map_or((path, None), |(head, tail)| (head, Some(tail)));
        match segment
            .strip_prefix('{')
            .and_then(|label| label.strip_suffix('}'))
        {
            Some(_) if given.is_empty() => return None,
            Some(label) => visit(Step::Label(label), given),
            None if percent_decode_str(given)
                .decode_utf8()
                .is_ok_and(|given| given == segment) =>
            {
                visit(Step::Fixed, given);
            }
            None => return None,
        }
        match (more, rest) {
            (None, None | Some("")) => return Some(()),
            (Some(more), Some(rest)) => {
                template = more;
                path = rest;
            }
            _ => return None,
        }
    }
}

/// The labels of a request's path, unescaped.
pub(super) fn labels(
    operation: &'static OperationSchema,
    parts: &Parts,
) -> Result<Vec<(&'static str, String)>, DecodeError> {
    let template = operation.route.uri.split('?').next().unwrap_or_default();
    let mut labels: Vec<(&'static str, &str)> = Vec::new();
    let fits = walk(template, parts.uri.path(), &mut |step, given| match step {
        Step::Fixed => {}
        Step::Label(name) | Step::Greedy(name) => labels.push((name, given)),
    });
    if fits.is_none() {
        let detail = format!("The path is not one of {}.", operation.name);
        return Err(DecodeError::Malformed { detail });
    }
    let unescape = |(name, given): (&'static str, &str)| match percent_decode_str(given).decode_utf8() {
        Ok(value) => Ok((name, value.into_owned())),
        Err(_) => Err(DecodeError::Malformed {
            detail: format!("{name} in the path is not UTF-8."),
        }),
    };
    labels.into_iter().map(unescape).collect()
}

#[cfg(test)]
mod tests;
