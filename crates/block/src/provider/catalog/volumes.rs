//! Plans of the calls on volumes: create, expand, publish, unpublish, delete. Pure; the table of requirements/ebs.md §3.5
//! row by row. Providers call these, do what they say, and change the catalog last.

use super::{
    Catalog, CreateVolumePlan, DeletePlan, ExpandPlan, OriginalRequest, Ownership, PublishPlan, VolumeRecord,
    check_capacity, check_completed, check_source_volume, invalid,
};
use crate::id::{NodeId, VolumeHandle, VolumeId};
use crate::limits;
use crate::provider::{
    Argument, Capabilities, Capability, CapacityRange, CreateVolume, Deletion, ExportAddress, ProviderError,
    Publication, PublishVolume, VolumeSource,
};

impl Catalog {
    /// Plans CreateVolume.
    pub fn plan_create_volume(
        &self,
        request: &CreateVolume,
        capabilities: &Capabilities,
    ) -> Result<CreateVolumePlan, ProviderError> {
        const OPERATION: &str = "create volume";
        check_capacity(OPERATION, request.capacity, capabilities.volume_bytes_max)?;
        let parameter_fits = |text: &String| text.len() <= limits::VOLUME_PARAMETER_LEN_MAX;
        if request.parameters.len() > limits::VOLUME_PARAMETERS_MAX
            || !request
                .parameters
                .iter()
                .all(|(key, value)| parameter_fits(key) && parameter_fits(value))
        {
            return Err(invalid(OPERATION, Argument::Parameters));
        }
        if let VolumeSource::Seed { bytes } = &request.source {
            if !capabilities.volume_seeding {
                return Err(ProviderError::UnsupportedCapability(Capability::VolumeSeeding));
            }
            let (seed, max) = (
                bytes.len() as u64,
                request.capacity.required_bytes.min(limits::SEED_BYTES_MAX),
            );
            if seed > max {
                return Err(invalid(OPERATION, Argument::SeedTooLarge { seed, max }));
            }
        }
        let original = OriginalRequest::from(request);
        if let Some(existing) = self.find_volume(&request.volume)? {
            return if existing.original == original {
                Ok(CreateVolumePlan::Existing(existing.view()))
            } else {
                Err(ProviderError::AlreadyExists((&request.volume).into()))
            };
        }
        let clone_of = match &request.source {
            VolumeSource::Blank | VolumeSource::Seed { .. } => None,
            VolumeSource::Snapshot {
                snapshot,
                source_volume,
            } => {
                let record = self.snapshot(snapshot, None)?;
                check_source_volume(OPERATION, &record.view, source_volume)?;
                check_completed(OPERATION, &record.view)?;
                let (required, size) = (request.capacity.required_bytes, record.view.size_bytes);
                if required < size {
                    return Err(invalid(
                        OPERATION,
                        Argument::CapacityBelowSnapshot {
                            required,
                            snapshot: size,
                        },
                    ));
                }
                Some(record.clone())
            }
        };
        Ok(CreateVolumePlan::New {
            record: Box::new(VolumeRecord {
                volume: request.volume.clone(),
                handle: VolumeHandle::mint(),
                capacity_bytes: request.capacity.required_bytes,
                original,
                ownership: Ownership::default(),
            }),
            clone_of,
        })
    }

    /// Plans ExpandVolume.
    pub fn plan_expand(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
        range: CapacityRange,
        capabilities: &Capabilities,
    ) -> Result<ExpandPlan, ProviderError> {
        const OPERATION: &str = "expand volume";
        check_capacity(OPERATION, range, capabilities.volume_bytes_max)?;
        let record = self.volume(volume, handle)?;
        let (required, current) = (range.required_bytes, record.capacity_bytes);
        if required < current {
            return Err(invalid(
                OPERATION,
                Argument::CapacityBelowCurrent { required, current },
            ));
        }
        if required == current {
            return Ok(ExpandPlan::Unchanged(record.view()));
        }
        if record.ownership.publication.is_some() && !capabilities.online_expansion {
            return Err(ProviderError::VolumeInUse(volume.clone()));
        }
        Ok(ExpandPlan::Grow(VolumeRecord {
            capacity_bytes: required,
            ..record.clone()
        }))
    }

    /// Plans PublishVolume; `export_of` names the address of an incarnation's export.
    pub fn plan_publish(
        &self,
        request: &PublishVolume,
        capabilities: &Capabilities,
        export_of: impl FnOnce(VolumeHandle) -> ExportAddress,
    ) -> Result<PublishPlan, ProviderError> {
        if request.read_only && !capabilities.read_only_publish {
            return Err(ProviderError::UnsupportedCapability(Capability::ReadOnlyPublish));
        }
        let record = self.volume(&request.volume, request.handle)?;
        let last = record.ownership.last_generation;
        let fenced = |held| ProviderError::Fenced {
            volume: request.volume.clone(),
            held,
            current: last,
        };
        let generation = match &record.ownership.publication {
            Some(live) => {
                if live.node != request.node || live.read_only != request.read_only {
                    return Err(ProviderError::VolumeInUse(request.volume.clone()));
                }
                match request.generation {
                    None => return Ok(PublishPlan::Existing(live.clone())),
                    Some(generation) if generation == live.generation => {
                        return Ok(PublishPlan::Existing(live.clone()));
                    }
                    Some(generation) if generation < live.generation => return Err(fenced(generation)),
                    Some(generation) => generation,
                }
            }
            None => match request.generation {
                None => last.next(),
                Some(generation) if generation <= last => return Err(fenced(generation)),
                Some(generation) => generation,
            },
        };
        Ok(PublishPlan::New(Publication {
            volume: request.volume.clone(),
            handle: record.handle,
            node: request.node.clone(),
            read_only: request.read_only,
            generation,
            export: export_of(record.handle),
        }))
    }

    /// The publication that UnpublishVolume has to seal and end, if any.
    pub fn plan_unpublish(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
        node: &NodeId,
    ) -> Result<Option<Publication>, ProviderError> {
        let publication = self.find_publication(volume)?;
        Ok(
            publication
                .filter(|live| live.node == *node && handle.is_none_or(|handle| handle == live.handle)),
        )
    }

    /// Plans DeleteVolume.
    pub fn plan_delete_volume(
        &self,
        volume: &VolumeId,
        handle: Option<VolumeHandle>,
    ) -> Result<DeletePlan<VolumeRecord>, ProviderError> {
        let Some(record) = self.find_volume(volume)? else {
            return Ok(DeletePlan::Nothing(Deletion::AlreadyGone));
        };
        if handle.is_some_and(|handle| handle != record.handle) {
            return Ok(DeletePlan::Nothing(Deletion::OtherIncarnation));
        }
        if record.ownership.publication.is_some() {
            return Err(ProviderError::VolumeInUse(volume.clone()));
        }
        Ok(DeletePlan::Remove(record.clone()))
    }
}
