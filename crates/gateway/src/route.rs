//! Which service a request is for, without decoding it (identity.md R4): credential scope, else host, else target
//! header, else the API version that it names.
//!
//! A request to no service that we know still gets an answer its client can read: in JSON if it has a target header,
//! else in the Query form (R21).

use aws_shapes::ServiceSchema;
use aws_shapes::schema::Protocol;
use aws_wire::parameters::form_pairs;
use aws_wire::registry::Registry;
use aws_wire::sigv4::Presented;
use http::request::Parts;

/// Services that may be asked in `us-east-1` wherever the cloud is (identity.md R15).
const GLOBAL: &[&str] = &[
    "iam",
    "sts",
    "route53",
    "cloudfront",
    "organizations",
    "account",
    "health",
    "support",
    "budgets",
    "shield",
    "waf",
];

/// Regions under which global services are asked.
const GLOBAL_REGIONS: &[&str] = &["us-east-1", "aws-global"];

/// Stands for a service that is not known, to choose an envelope.
static UNKNOWN_QUERY: ServiceSchema = unknown(Protocol::Query);
static UNKNOWN_JSON: ServiceSchema = unknown(Protocol::Json11);

const fn unknown(protocol: Protocol) -> ServiceSchema {
    ServiceSchema {
        name: "unknown",
        service_id: "unknown",
        api_version: "",
        endpoint_prefix: "",
        signing_name: "",
        global: false,
        protocol,
        target_prefix: None,
        xml_namespace: None,
        operations: &[],
        unbuilt_operations: &[],
        unbuilt_routes: &[],
    }
}

/// Where a request goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    /// The service, or one of the two that stand for none.
    pub(crate) service: &'static ServiceSchema,
    /// False if the service is not known to this cloud.
    pub(crate) known: bool,
}

/// Finds the service.
pub(crate) fn find(registry: &Registry, parts: &Parts, body: &[u8], presented: Option<&Presented>) -> Route {
    let target = parts
        .headers
        .get("x-amz-target")
        .and_then(|value| value.to_str().ok());
    let by_scope = presented.map(|presented| registry.find_service(&presented.scope.service));
    let found = match by_scope {
        Some(found) => found,
        None => by_host(registry, parts)
            .or_else(|| registry.find_service_by_target(target?.rsplit_once('.')?.0))
            .or_else(|| by_version(registry, parts, body)),
    };
    match found {
        Some(service) => Route { service, known: true },
        None if target.is_some() => Route {
            service: &UNKNOWN_JSON,
            known: false,
        },
        None => Route {
            service: &UNKNOWN_QUERY,
            known: false,
        },
    }
}

/// True where a scope's region is one in which the service is asked here.
pub(crate) fn serves_region(service: &ServiceSchema, own: &str, asked: &str) -> bool {
    asked == own || GLOBAL.contains(&service.signing_name) && GLOBAL_REGIONS.contains(&asked)
}

fn by_host(registry: &Registry, parts: &Parts) -> Option<&'static ServiceSchema> {
    let host = parts
        .headers
        .get(http::header::HOST)
        .and_then(|value| value.to_str().ok());
    let host = host.or_else(|| parts.uri.host())?;
    registry.find_service_by_host_label(host.split('.').next()?)
}

fn by_version(registry: &Registry, parts: &Parts, body: &[u8]) -> Option<&'static ServiceSchema> {
    let body = std::str::from_utf8(body).unwrap_or_default();
    let query = parts.uri.query().unwrap_or_default();
    let (_, version) = form_pairs(query)
        .chain(form_pairs(body))
        .find(|(name, _)| name == "Version")?;
    registry.services().find(|service| service.api_version == version)
}

/// Chooses the envelope of a request that was refused before its service was looked for.
pub(crate) fn fallback() -> &'static ServiceSchema {
    &UNKNOWN_QUERY
}
