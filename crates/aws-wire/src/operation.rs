//! What an operation is: its access, and its effect.
//!
//! An operation states which actions it may ask about ([`Operation::ACTIONS`]), names for each call the (action,
//! resource) pairs that must be allowed ([`Operation::access`]) and does its work only after they were
//! ([`Operation::handle`]). It never decides permission itself: [`perform`] is the one access layer (identity.md
//! R2–R4, R54), and it holds the order: access, decision, model constraints, `DryRun`, effect.
//!
//! The erased form, [`DynOperation`], is what the registry keeps; codecs fill and read its boxed shapes.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use aws_shapes::validate::validate;
use aws_shapes::{DynShape, OperationSchema, OperationShape};
use aws_types::{AccountId, Arn, AwsError, catalogue};
use policy::{Context, Decision, Facts, Request, Values, decide};

use crate::call::Call;
use crate::refusal::{Refusal, constraint_error};

/// When an operation answers a call with `DryRun`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DryRun {
    /// Right after the decision: the operation has no validation of its own.
    AfterDecision,
    /// The operation validates and then asks [`Call::finish_dry_run`] before it commits.
    InOperation,
}

/// One AWS operation.
#[async_trait]
pub trait Operation: Send + Sync + 'static {
    /// Its types and schema.
    type Shape: OperationShape;

    /// Every action that [`Operation::access`] may name. Never empty.
    const ACTIONS: &'static [&'static str];

    /// Who answers `DryRun`.
    const DRY_RUN: DryRun = DryRun::AfterDecision;

    /// The (action, resource) pairs that must all be allowed. May read the store where ARNs or tags come from
    /// records; a record that does not exist is evaluated as an ARN of the caller's account without tags.
    ///
    /// # Errors
    /// Only the service's 503 for what cannot be read, and errors that do not depend on records.
    async fn access(
        &self,
        call: &Call,
        input: &<Self::Shape as OperationShape>::Input,
    ) -> Result<Vec<AccessRequest>, AwsError>;

    /// Validates, commits, renders. Runs only after everything in [`Operation::access`] was allowed.
    ///
    /// # Errors
    /// What the operation answers instead of its output.
    async fn handle(
        &self,
        call: &Call,
        input: <Self::Shape as OperationShape>::Input,
    ) -> Result<<Self::Shape as OperationShape>::Output, AwsError>;
}

impl Call {
    /// The end of a dry run: nothing after this line may change anything.
    ///
    /// # Errors
    /// `DryRunOperation` 412 if this call is one.
    pub fn finish_dry_run(&self) -> Result<(), AwsError> {
        if self.dry_run {
            return Err(
                catalogue::DRY_RUN_OPERATION.error("Request would have succeeded, but DryRun flag is set.")
            );
        }
        Ok(())
    }
}

/// What an action is done to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// `*`: the action has no resource-level permissions.
    Any,
    /// One resource.
    Arn(Arn),
}

impl Resource {
    /// The text that policies compare.
    pub fn as_str(&self) -> &str {
        match self {
            Resource::Any => "*",
            Resource::Arn(arn) => arn.as_str(),
        }
    }
}

/// A question for the access layer: one action on each of these resources, with condition keys of the operation
/// and of the resources. Resources with different keys (tags) go into requests of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessRequest {
    /// `service:Name`.
    pub action: &'static str,
    /// What it is done to. Never empty.
    pub resources: Vec<Resource>,
    /// Condition keys beyond those that every call has.
    pub context: Context,
    /// Owner of the resources where their ARNs do not name one.
    pub owner: Option<AccountId>,
    /// True for the few actions that need no permission and cannot be denied (GetCallerIdentity).
    pub free: bool,
}

impl AccessRequest {
    /// An action without resource-level permissions.
    pub fn on_any(action: &'static str) -> Self {
        Self {
            action,
            resources: vec![Resource::Any],
            context: Context::new(),
            owner: None,
            free: false,
        }
    }

    /// An action on one resource.
    pub fn on(action: &'static str, arn: Arn) -> Self {
        Self {
            resources: vec![Resource::Arn(arn)],
            ..Self::on_any(action)
        }
    }

    /// An action on several resources that share their condition keys. Without any, it is asked on `*`.
    pub fn on_each(action: &'static str, arns: impl IntoIterator<Item = Arn>) -> Self {
        let resources: Vec<Resource> = arns.into_iter().map(Resource::Arn).collect();
        if resources.is_empty() {
            Self::on_any(action)
        } else {
            Self {
                resources,
                ..Self::on_any(action)
            }
        }
    }

    /// An action that AWS grants to everyone with valid credentials and that no policy can deny.
    pub fn free(action: &'static str) -> Self {
        Self {
            free: true,
            ..Self::on_any(action)
        }
    }

    /// Adds a condition key.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Self {
        self.context = self.context.with(key, value);
        self
    }

    /// Adds `aws:ResourceTag/k` for each tag of the resource.
    #[must_use]
    pub fn with_resource_tags<'a>(
        mut self,
        tags: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Self {
        self.context = self.context.with_tags("aws:ResourceTag", tags);
        self
    }

    /// Adds `aws:RequestTag/k` and `aws:TagKeys` for the tags that the request carries.
    #[must_use]
    pub fn with_request_tags<'a>(mut self, tags: impl IntoIterator<Item = (&'a String, &'a String)>) -> Self {
        self.context = self.context.with_request_tags(tags);
        self
    }

    /// Says whose the resources are, where their ARNs do not (S3).
    #[must_use]
    pub fn owned_by(mut self, account: AccountId) -> Self {
        self.owner = Some(account);
        self
    }

    fn owner_of(&self, resource: &Resource) -> Option<AccountId> {
        self.owner.or(match resource {
            Resource::Arn(arn) => arn.account(),
            Resource::Any => None,
        })
    }
}

impl From<AccessRequest> for Vec<AccessRequest> {
    fn from(request: AccessRequest) -> Self {
        vec![request]
    }
}

/// The keys of one (action, resource) pair: the operation's own, the resource's owner, then those of the call.
struct PairFacts<'a> {
    call: &'a Call,
    context: &'a Context,
    owner: Option<AccountId>,
}

impl Facts for PairFacts<'_> {
    fn find(&self, key: &str) -> Option<Values<'_>> {
        if let Some(values) = self.context.find(key) {
            return Some(values);
        }
        match (key, self.owner) {
            ("aws:resourceaccount", Some(owner)) => Some(Values::One(Cow::Owned(owner.to_string()))),
            _ => self.call.find(key),
        }
    }
}

/// An operation whose types are not known: what the registry holds.
#[async_trait]
pub trait DynOperation: Send + Sync + 'static {
    /// Its schema.
    fn schema(&self) -> &'static OperationSchema;
    /// See [`Operation::ACTIONS`].
    fn actions(&self) -> &'static [&'static str];
    /// See [`Operation::DRY_RUN`].
    fn dry_run(&self) -> DryRun;
    /// See [`Operation::access`]. `input` is of the operation's input shape.
    async fn access(&self, call: &Call, input: &dyn DynShape) -> Result<Vec<AccessRequest>, AwsError>;
    /// See [`Operation::handle`]. `input` is of the operation's input shape.
    async fn handle(&self, call: &Call, input: Box<dyn DynShape>) -> Result<Box<dyn DynShape>, AwsError>;
}

/// Erases the types of `operation`.
pub(crate) fn erase<O: Operation>(operation: O) -> Arc<dyn DynOperation> {
    Arc::new(Erased(operation))
}

struct Erased<O>(O);

#[async_trait]
impl<O: Operation> DynOperation for Erased<O> {
    fn schema(&self) -> &'static OperationSchema {
        <O::Shape as OperationShape>::SCHEMA
    }

    fn actions(&self) -> &'static [&'static str] {
        O::ACTIONS
    }

    fn dry_run(&self) -> DryRun {
        O::DRY_RUN
    }

    async fn access(&self, call: &Call, input: &dyn DynShape) -> Result<Vec<AccessRequest>, AwsError> {
        let input: &dyn Any = input;
        let input = input.downcast_ref().ok_or_else(|| foreign_input(self.schema()))?;
        self.0.access(call, input).await
    }

    async fn handle(&self, call: &Call, input: Box<dyn DynShape>) -> Result<Box<dyn DynShape>, AwsError> {
        let input = input
            .into_any()
            .downcast()
            .map_err(|_| foreign_input(self.schema()))?;
        Ok(Box::new(self.0.handle(call, *input).await?))
    }
}

/// The decoder made another shape than the operation's: a mistake of ours, told to the log only.
fn foreign_input(schema: &OperationSchema) -> AwsError {
    tracing::error!(
        operation = schema.name,
        "decoded input is not of the operation's shape"
    );
    AwsError::internal()
}

/// One pair that was decided, for the audit line.
#[derive(Debug, Clone, PartialEq)]
pub struct DecidedPair {
    /// The action.
    pub action: &'static str,
    /// The resource.
    pub resource: Resource,
    /// The answer; `None` for actions that need no permission.
    pub decision: Option<Decision>,
}

/// What became of a call.
pub struct Performed {
    /// The output, or the error to answer.
    pub result: Result<Box<dyn DynShape>, AwsError>,
    /// Every pair that was evaluated, up to and with the first refusal.
    pub decided: Vec<DecidedPair>,
}

impl Performed {
    /// True where policy refused.
    pub fn denied(&self) -> bool {
        self.decided
            .last()
            .is_some_and(|pair| pair.decision.as_ref().is_some_and(|d| !d.is_allowed()))
    }
}

/// Runs `operation` for `call`: access, decision, model constraints, `DryRun`, effect, in this order.
pub async fn perform(operation: &dyn DynOperation, call: &Call, input: Box<dyn DynShape>) -> Performed {
    let mut decided = Vec::new();
    let result = match operation.access(call, input.as_ref()).await {
        Ok(requests) => match authorize(operation, call, &requests, &mut decided) {
            Ok(()) => carry_out(operation, call, input).await,
            Err(refused) => Err(refused),
        },
        Err(error) => Err(error),
    };
    Performed { result, decided }
}

async fn carry_out(
    operation: &dyn DynOperation,
    call: &Call,
    input: Box<dyn DynShape>,
) -> Result<Box<dyn DynShape>, AwsError> {
    if let Some(error) = constraint_error(operation.schema(), &validate(input.as_ref())) {
        return Err(error);
    }
    if operation.dry_run() == DryRun::AfterDecision {
        call.finish_dry_run()?;
    }
    operation.handle(call, input).await
}

fn authorize(
    operation: &dyn DynOperation,
    call: &Call,
    requests: &[AccessRequest],
    decided: &mut Vec<DecidedPair>,
) -> Result<(), AwsError> {
    let schema = operation.schema();
    if requests.is_empty() {
        tracing::error!(operation = schema.name, "the operation named no access; refused");
        return Err(AwsError::internal());
    }
    for request in requests {
        if !operation.actions().contains(&request.action) || request.resources.is_empty() {
            tracing::error!(
                operation = schema.name,
                action = request.action,
                "undeclared access; refused"
            );
            return Err(AwsError::internal());
        }
        for resource in &request.resources {
            let decision = (!request.free).then(|| decide_pair(call, request, resource));
            let refused = decision
                .as_ref()
                .filter(|decision| !decision.is_allowed())
                .map(|decision| {
                    Refusal::Denied.error_with(
                        schema.service,
                        decision.refusal(&call.caller.principal, request.action, resource.as_str()),
                    )
                });
            decided.push(DecidedPair {
                action: request.action,
                resource: resource.clone(),
                decision,
            });
            if let Some(error) = refused {
                return Err(error);
            }
        }
    }
    Ok(())
}

fn decide_pair(call: &Call, request: &AccessRequest, resource: &Resource) -> Decision {
    let owner = request.owner_of(resource);
    let facts = PairFacts {
        call,
        context: &request.context,
        owner,
    };
    decide(
        &call.caller.policies.layers(None),
        &Request {
            principal: &call.caller.principal,
            action: request.action,
            resource: resource.as_str(),
            owner,
            facts: &facts,
        },
    )
}
