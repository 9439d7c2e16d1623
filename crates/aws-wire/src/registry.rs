//! Every service and operation of this cloud, built or only known by name.
//!
//! Filled once at start: each room registers its services and operations, and a mistake there (an operation
//! without actions, one registered twice) ends the start. Afterwards it is read only. The gateway asks it which
//! service a request is for and what to run; it never guesses: what is not built is known by name and says so.

use std::collections::HashMap;
use std::sync::Arc;

use aws_shapes::{OperationSchema, OperationShape, ServiceSchema};

use crate::operation::{DynOperation, Operation, erase};

/// What an action's name stands for.
#[derive(Clone)]
pub enum Found {
    /// Runs.
    Built(Arc<dyn DynOperation>),
    /// Exists at AWS; this cloud does not have it.
    Unbuilt(&'static str),
    /// Exists nowhere.
    Unknown,
}

struct Service {
    schema: &'static ServiceSchema,
    operations: HashMap<&'static str, Arc<dyn DynOperation>>,
}

/// The services and operations of this cloud.
#[derive(Default)]
pub struct Registry {
    services: Vec<Service>,
}

impl Registry {
    /// Knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a service known, so that its operations answer by name even if none is built.
    ///
    /// # Panics
    /// If another service signs by the same name.
    pub fn register_service(&mut self, schema: &'static ServiceSchema) {
        if self.services.iter().any(|known| known.schema.name == schema.name) {
            return;
        }
        assert!(
            self.find_service(schema.signing_name).is_none(),
            "two services sign as {}",
            schema.signing_name
        );
        self.services.push(Service {
            schema,
            operations: HashMap::new(),
        });
    }

    /// Adds an operation, and its service if it is new.
    ///
    /// # Panics
    /// If the operation names no actions, an action without a service prefix, or is registered already. These
    /// are mistakes in the code, found at start and in each room's tests.
    pub fn register<O: Operation>(&mut self, operation: O) {
        let schema = <O::Shape as OperationShape>::SCHEMA;
        assert!(!O::ACTIONS.is_empty(), "{} declares no actions", schema.name);
        for action in O::ACTIONS {
            assert!(
                action
                    .split_once(':')
                    .is_some_and(|(service, name)| !service.is_empty() && !name.is_empty()),
                "{} declares {action:?}, which is not service:Name",
                schema.name
            );
        }
        self.register_service(schema.service);
        let service = self
            .services
            .iter_mut()
            .find(|known| known.schema.name == schema.service.name)
            .expect("registered on the line above");
        let earlier = service.operations.insert(schema.name, erase(operation));
        assert!(
            earlier.is_none(),
            "{}:{} is registered twice",
            schema.service.name,
            schema.name
        );
    }

    /// The service that signs as `signing_name`.
    pub fn find_service(&self, signing_name: &str) -> Option<&'static ServiceSchema> {
        self.services
            .iter()
            .map(|known| known.schema)
            .find(|schema| schema.signing_name == signing_name)
    }

    /// The service whose host names begin with `label` (`ec2` in `ec2.eu-central-1.amazonaws.com`).
    pub fn find_service_by_host_label(&self, label: &str) -> Option<&'static ServiceSchema> {
        self.services
            .iter()
            .map(|known| known.schema)
            .find(|schema| schema.endpoint_prefix == label)
    }

    /// The service with a target prefix of the JSON protocols.
    pub fn find_service_by_target(&self, prefix: &str) -> Option<&'static ServiceSchema> {
        self.services
            .iter()
            .map(|known| known.schema)
            .find(|schema| schema.target_prefix == Some(prefix))
    }

    /// What `action` of `service` stands for. Names are compared exactly.
    pub fn find(&self, service: &ServiceSchema, action: &str) -> Found {
        let Some(known) = self
            .services
            .iter()
            .find(|known| known.schema.name == service.name)
        else {
            return Found::Unknown;
        };
        if let Some(operation) = known.operations.get(action) {
            return Found::Built(Arc::clone(operation));
        }
        let shaped = || known.schema.find_operation(action).map(|schema| schema.name);
        match known.schema.find_unbuilt(action).or_else(shaped) {
            Some(name) => Found::Unbuilt(name),
            None => Found::Unknown,
        }
    }

    /// All services, in order of registration.
    pub fn services(&self) -> impl Iterator<Item = &'static ServiceSchema> {
        self.services.iter().map(|known| known.schema)
    }

    /// All built operations, sorted by service and name: for tests that hold for each of them.
    pub fn operations(&self) -> Vec<Arc<dyn DynOperation>> {
        let mut all: Vec<_> = self
            .services
            .iter()
            .flat_map(|known| known.operations.values().cloned())
            .collect();
        all.sort_by_key(|operation| (operation.schema().service.name, operation.schema().name));
        all
    }

    /// Schemas of operations that have shapes but were not registered: named by the start-up log and a test.
    pub fn shaped_but_unbuilt(&self) -> Vec<&'static OperationSchema> {
        self.services
            .iter()
            .flat_map(|known| {
                let built = &known.operations;
                known
                    .schema
                    .operations
                    .iter()
                    .copied()
                    .filter(|schema| !built.contains_key(schema.name))
            })
            .collect()
    }
}
