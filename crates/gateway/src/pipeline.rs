//! One request, from its head to its answer: the stations of identity.md R1 in their order.
//!
//! Every way out passes [`Front::answer`], which writes the audit line and then answers in the service's envelope. An
//! operation runs in a task of its own: a client that goes away cancels a read and never a change that may have begun
//! (R7), and a panic costs the one request that met it.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use aws_shapes::ServiceSchema;
use aws_types::{AwsError, Region};
use aws_wire::call::{Call, RequestId};
use aws_wire::operation::{DynOperation, Performed, perform};
use aws_wire::parameters::{Parameters, form_pairs};
use aws_wire::refusal::Refusal;
use aws_wire::registry::{Found, Registry};
use aws_wire::sigv4::{PresentFault, Presented, RequestView};
use aws_wire::{decode_into, detect_operation, encode_error, encode_output};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use iam::{Authenticator, Credential};
use time::OffsetDateTime;
use tracing::Instrument;

use crate::audit::{Audit, AuditLine, AuditedPair, Verdict};
use crate::authenticate::{Stop, authenticate, present_fault};
use crate::body::{self, BodyFault, Room};
use crate::limits;
use crate::lockout::{Lockout, Source};
use crate::route::{self, Route};
use crate::throttle::{Throttle, is_read};

/// Where the CA's certificate is served, to anybody.
const CA_PATH: &str = "/.well-known/spinifex-ca.pem";

/// Everything that requests share.
pub(crate) struct Front {
    pub(crate) registry: Arc<Registry>,
    pub(crate) authenticator: Authenticator,
    pub(crate) region: Region,
    pub(crate) lockout: Lockout,
    pub(crate) throttle: Throttle,
    pub(crate) audit: Audit,
    pub(crate) room: Room,
    pub(crate) ca_pem: Bytes,
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) ip: IpAddr,
    pub(crate) tls: &'static str,
}

/// What is known about a request so far, for its audit line and its envelope.
struct Progress {
    request_id: RequestId,
    now: OffsetDateTime,
    route: Option<Route>,
    action: Option<&'static str>,
    region: Option<String>,
    key_id: Option<String>,
    credential: Option<Arc<Credential>>,
    dry_run: bool,
    decided: Vec<AuditedPair>,
}

impl Front {
    /// Answers one request.
    pub(crate) async fn answer(&self, request: Request<Incoming>, peer: Peer) -> Response<Full<Bytes>> {
        let started = Instant::now();
        let (parts, body) = request.into_parts();
        let mut progress = Progress {
            request_id: RequestId::random(),
            now: OffsetDateTime::now_utc(),
            route: None,
            action: None,
            region: None,
            key_id: None,
            credential: None,
            dry_run: false,
            decided: Vec::new(),
        };
        let span = tracing::info_span!("call", request_id = %progress.request_id);
        let outcome = if parts.method == Method::GET && parts.uri.path() == CA_PATH {
            Ok(self.ca_file())
        } else {
            self.run(&parts, body, peer, &mut progress).instrument(span).await
        };
        let (response, verdict, error_code) = match outcome {
            Ok(response) => (response, Verdict::Allowed, None),
            Err(stop) => {
                let code = stop.error.code.clone().into_owned();
                (self.refuse(&stop, &progress), stop.verdict, Some(code))
            }
        };
        self.audit.record(&audit_line(
            &parts, peer, progress, started, &response, verdict, error_code,
        ));
        response.map(Full::new)
    }

    async fn run(
        &self,
        parts: &Parts,
        body: Incoming,
        peer: Peer,
        progress: &mut Progress,
    ) -> Result<Response<Bytes>, Stop> {
        check_head(parts)?;
        let headers = header_view(parts);
        let view = RequestView {
            method: parts.method.as_str(),
            path: parts.uri.path(),
            query: parts.uri.query().unwrap_or_default(),
            headers: &headers,
        };
        let presented = Presented::parse(&view);
        let signed = !matches!(presented, Err(PresentFault::Absent));
        let cap = if signed {
            limits::BODY_BYTES_MAX
        } else {
            limits::UNSIGNED_BODY_BYTES_MAX
        };
        let held = body::read(body, cap, &self.room).await;

        let read: &[u8] = held.as_ref().map_or(&[], |held| &held.bytes);
        let route = route::find(&self.registry, parts, read, presented.as_ref().ok());
        progress.route = Some(route);
        let held = held.map_err(|fault| body_fault(fault, route.service))?;
        let body = held.bytes.clone();
        let detected = detect_operation(route.service, parts, &body);
        progress.action = detected.as_ref().ok().map(|detected| detected.name());

        let source = Source::from(peer.ip);
        let key_id = presented.as_ref().ok().map(|presented| presented.key_id.clone());
        progress.key_id.clone_from(&key_id);
        progress.region = presented
            .as_ref()
            .ok()
            .map(|presented| presented.scope.region.clone());
        if let Some(left) = self.lockout.locked_for(source, key_id.as_deref(), Instant::now()) {
            return Err(throttled(route.service, left, Verdict::LockedOut));
        }
        let proved = match &presented {
            Ok(presented) => {
                let own_region = self.region.as_str();
                authenticate(
                    &self.authenticator,
                    presented,
                    &view,
                    &body,
                    &route,
                    own_region,
                    progress.now,
                )
                .await
            }
            Err(fault) => Err(present_fault(fault, route.service)),
        };
        let credential = match proved {
            Ok(credential) => credential,
            Err(stop) => {
                if let Some(refusal) = stop.failure {
                    let attempt = presented
                        .as_ref()
                        .ok()
                        .map(|p| (p.signature, p.session_token.clone()));
                    // A failure without a readable key has nothing that tells it from the next, so each counts.
                    let nonce = attempt.is_none().then(|| progress.request_id.clone());
                    let fingerprint = (refusal.error(None).code.into_owned(), attempt, nonce);
                    self.lockout
                        .failed(source, key_id.as_deref(), fingerprint, Instant::now());
                }
                return Err(stop);
            }
        };
        self.lockout.succeeded(source, &credential.access_key_id);
        progress.credential = Some(Arc::clone(&credential));

        let bucket = progress.action.unwrap_or("unknown");
        self.throttle
            .admit(credential.account, bucket, Instant::now())
            .map_err(|wait| throttled(route.service, wait, Verdict::Throttled))?;

        if !route.known {
            let message = "The service is not implemented by this cloud.";
            return Err(Stop::refused(
                Refusal::NotImplemented.error_with(route.service, message),
            ));
        }
        let name = detected.map_err(Stop::refused)?.name();
        let operation = match self.registry.find(route.service, name) {
            Found::Built(operation) => operation,
            Found::Unbuilt(name) => {
                let message = format!(
                    "The operation {}:{name} is not implemented by this cloud.",
                    route.service.name
                );
                return Err(Stop::refused(
                    Refusal::NotImplemented.error_with(route.service, message),
                ));
            }
            Found::Unknown => return Err(Stop::refused(Refusal::UnknownAction.error(Some(route.service)))),
        };
        let reads = is_read(name);
        if !reads && !self.audit.is_writable() {
            return Err(Stop::refused(AwsError::unavailable()));
        }
        let call = self.call(parts, &body, peer, progress, &credential, route.service);
        progress.dry_run = call.dry_run;
        self.perform(parts, &body, operation, call, reads, progress).await
    }

    /// Everything an operation may know about its caller.
    fn call(
        &self,
        parts: &Parts,
        body: &Bytes,
        peer: Peer,
        progress: &Progress,
        credential: &Credential,
        service: &ServiceSchema,
    ) -> Call {
        // A scope that got this far names a region that is served, or the one of the global services.
        let region = progress
            .region
            .as_deref()
            .and_then(|region| Region::parse(region).ok());
        let region = region.unwrap_or_else(|| self.region.clone());
        let text = |name: &str| {
            parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned)
        };
        let query = parts.uri.query().unwrap_or_default();
        let mut call = Call::new(credential.caller(), region, progress.now);
        call.request_id = progress.request_id.clone();
        call.source_ip = peer.ip;
        call.user_agent = text("user-agent");
        call.invocation_id = text("amz-sdk-invocation-id");
        call.dry_run = asks_for_dry_run(service, query, body);
        call.with_parameters(parameters(parts, service, query, body))
    }

    async fn perform(
        &self,
        parts: &Parts,
        body: &Bytes,
        operation: Arc<dyn DynOperation>,
        call: Call,
        reads: bool,
        progress: &mut Progress,
    ) -> Result<Response<Bytes>, Stop> {
        let schema = operation.schema();
        let mut input = (schema.new_input)();
        decode_into(schema, parts, body, input.as_mut()).map_err(Stop::refused)?;
        let work = async move { perform(operation.as_ref(), &call, input).await };
        let task = Task {
            handle: tokio::spawn(work.in_current_span()),
            cancels: reads,
        };
        let Performed { result, decided } = task.finish().await.ok_or_else(|| {
            tracing::error!(operation = schema.name, "the operation panicked");
            Stop::refused(AwsError::internal())
        })?;
        let denied = decided
            .last()
            .is_some_and(|pair| pair.decision.as_ref().is_some_and(|d| !d.is_allowed()));
        progress.decided = decided
            .into_iter()
            .map(|pair| {
                let statement = pair
                    .decision
                    .as_ref()
                    .and_then(|decision| decision.statement.as_ref());
                AuditedPair {
                    action: pair.action,
                    resource: pair.resource.as_str().to_owned(),
                    allowed: pair.decision.as_ref().is_none_or(policy::Decision::is_allowed),
                    policy: statement.map(|statement| statement.policy.to_string()),
                    sid: statement.and_then(|statement| statement.sid.clone()),
                }
            })
            .collect();
        match result {
            Ok(output) => Ok(encode_output(
                schema,
                output.as_ref(),
                progress.request_id.as_str(),
            )),
            Err(error) => {
                let verdict = if denied { Verdict::Denied } else { Verdict::Allowed };
                Err(Stop {
                    error,
                    verdict,
                    retry_after: None,
                    failure: None,
                })
            }
        }
    }

    fn refuse(&self, stop: &Stop, progress: &Progress) -> Response<Bytes> {
        let service = progress.route.map_or_else(route::fallback, |route| route.service);
        let mut response = encode_error(service, &stop.error, progress.request_id.as_str());
        if let Some(seconds) = stop.retry_after {
            response
                .headers_mut()
                .insert(http::header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }

    fn ca_file(&self) -> Response<Bytes> {
        let mut response = Response::new(self.ca_pem.clone());
        response.headers_mut().insert(
            http::header::CONTENT_TYPE,
            HeaderValue::from_static("application/x-pem-file"),
        );
        response
    }
}

/// A running operation.
struct Task {
    handle: tokio::task::JoinHandle<Performed>,
    cancels: bool,
}

impl Task {
    /// Its outcome; nothing if it panicked.
    async fn finish(mut self) -> Option<Performed> {
        (&mut self.handle).await.ok()
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if self.cancels {
            self.handle.abort();
        }
    }
}

fn check_head(parts: &Parts) -> Result<(), Stop> {
    let too_large = |what: &str| {
        Stop::refused(AwsError {
            code: Cow::Borrowed("RequestHeaderSectionTooLarge"),
            message: format!("{what} exceeds the maximum allowed size."),
            status: 431,
            fields: Vec::new(),
        })
    };
    let url = parts.uri.path_and_query().map_or(0, |url| url.as_str().len());
    if url > limits::URL_BYTES_MAX {
        return Err(too_large("The request's URL"));
    }
    let mut total = 0;
    for (name, value) in &parts.headers {
        let line = name.as_str().len() + value.len();
        total += line;
        if line > limits::HEADER_LINE_BYTES_MAX || total > limits::HEADER_BYTES_MAX {
            return Err(too_large("The request's header section"));
        }
    }
    Ok(())
}

/// Headers as the signature sees them; HTTP/2's `:authority` is `host`.
fn header_view(parts: &Parts) -> Vec<(&str, &[u8])> {
    let mut headers: Vec<(&str, &[u8])> = parts
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    if !parts.headers.contains_key(http::header::HOST)
        && let Some(authority) = parts.uri.authority()
    {
        headers.push(("host", authority.as_str().as_bytes()));
    }
    headers
}

fn body_fault(fault: BodyFault, service: &ServiceSchema) -> Stop {
    Stop::refused(match fault {
        BodyFault::TooLarge => Refusal::BodyTooLarge.error(Some(service)),
        BodyFault::NoRoom => AwsError::unavailable(),
        BodyFault::Idle | BodyFault::Broken => AwsError {
            code: Cow::Borrowed("RequestTimeout"),
            message: "The request's body did not arrive in time.".to_owned(),
            status: 408,
            fields: Vec::new(),
        },
    })
}

fn throttled(service: &ServiceSchema, wait: std::time::Duration, verdict: Verdict) -> Stop {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    Stop {
        error: Refusal::Throttled.error(Some(service)),
        verdict,
        retry_after: Some(seconds.max(1)),
        failure: None,
    }
}

fn is_form(service: &ServiceSchema) -> bool {
    use aws_shapes::schema::Protocol::{Ec2Query, Query};
    matches!(service.protocol, Ec2Query | Query)
}

/// Only EC2 has `DryRun`.
fn asks_for_dry_run(service: &ServiceSchema, query: &str, body: &[u8]) -> bool {
    let asks = |text: &str| {
        text.contains("DryRun")
            && form_pairs(text).any(|(name, value)| name == "DryRun" && value.eq_ignore_ascii_case("true"))
    };
    service.protocol == aws_shapes::schema::Protocol::Ec2Query
        && (asks(query) || std::str::from_utf8(body).is_ok_and(asks))
}

fn parameters(parts: &Parts, service: &ServiceSchema, query: &str, body: &Bytes) -> Parameters {
    use aws_shapes::schema::Protocol::{Json10, Json11, RestJson};
    match service.protocol {
        _ if is_form(service) => Parameters::form(query, body.clone()),
        Json10 | Json11 => Parameters::json(body.clone()),
        protocol => {
            let json = protocol == RestJson;
            Parameters::rest(parts.method.as_str(), parts.uri.path(), query, body.clone(), json)
        }
    }
}

fn audit_line(
    parts: &Parts,
    peer: Peer,
    progress: Progress,
    started: Instant,
    response: &Response<Bytes>,
    verdict: Verdict,
    error_code: Option<String>,
) -> AuditLine {
    let user_agent = parts
        .headers
        .get(http::header::USER_AGENT)
        .and_then(|value| value.to_str().ok());
    let principal = progress
        .credential
        .as_ref()
        .map(|credential| &credential.principal);
    AuditLine {
        time: progress.now,
        request_id: progress.request_id.to_string(),
        source_ip: peer.ip,
        tls: peer.tls,
        user_agent: user_agent.map(|text| text.chars().take(limits::AUDIT_USER_AGENT_CHARS).collect()),
        service: progress
            .route
            .filter(|route| route.known)
            .map(|route| route.service.name),
        action: progress.action,
        region: progress.region,
        access_key_id: progress.key_id,
        principal: principal.map(|principal| principal.shown().to_owned()),
        principal_type: principal.map(policy::Principal::kind),
        account: progress
            .credential
            .as_ref()
            .map(|credential| credential.account.to_string()),
        dry_run: progress.dry_run,
        resources: progress.decided,
        verdict,
        error_code,
        status: response.status().as_u16(),
        duration_us: u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
    }
}
