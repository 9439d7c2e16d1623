//! Every error code that we emit, with its status.
//!
//! Sources: "Error codes for the Amazon EC2 API", "Common Errors" of IAM and STS, the service models of botocore.
//! EC2's client errors are 400 but for the exceptions AWS documents. Add a code here before using it.

use super::ErrorCode;

macro_rules! catalogue {
    ($($(#[$doc:meta])* $name:ident = $code:literal $(, $status:literal)?;)*) => {
        $( $(#[$doc])* #[doc = concat!("`", $code, "`.")] pub const $name: ErrorCode = catalogue!(@make $code $(, $status)?); )*
        /// Every code of the catalogue, for tests.
        pub const ALL: &[ErrorCode] = &[$($name),*];
    };
    (@make $code:literal) => { ErrorCode::client($code) };
    (@make $code:literal, $status:literal) => { ErrorCode::with($code, $status) };
}

catalogue! {
    INTERNAL_ERROR = "InternalError", 500;
    SERVICE_UNAVAILABLE = "Unavailable", 503;
    REQUEST_LIMIT_EXCEEDED = "RequestLimitExceeded", 503;
    AUTH_FAILURE = "AuthFailure", 401;
    UNAUTHORIZED_OPERATION = "UnauthorizedOperation", 403;
    DRY_RUN_OPERATION = "DryRunOperation", 412;
    BLOCKED = "Blocked", 403;
    REQUEST_EXPIRED = "RequestExpired";
    INVALID_ACTION = "InvalidAction";
    MISSING_ACTION = "MissingAction";
    NOT_IMPLEMENTED = "NotImplemented", 501;
    UNSUPPORTED_OPERATION = "UnsupportedOperation";
    UNKNOWN_PARAMETER = "UnknownParameter";
    MISSING_PARAMETER = "MissingParameter";
    INVALID_PARAMETER = "InvalidParameter";
    INVALID_PARAMETER_VALUE = "InvalidParameterValue";
    INVALID_PARAMETER_COMBINATION = "InvalidParameterCombination";
    INVALID_PARAMETER_DEPENDENCY = "InvalidParameterDependency";
    IDEMPOTENT_PARAMETER_MISMATCH = "IdempotentParameterMismatch";
    MALFORMED_QUERY_STRING = "MalformedQueryString";
    REQUEST_ENTITY_TOO_LARGE = "RequestEntityTooLarge", 413;
    NO_SUCH_VERSION = "NoSuchVersion";
    RESOURCE_LIMIT_EXCEEDED = "ResourceLimitExceeded";
    DEPENDENCY_VIOLATION = "DependencyViolation";
    OPERATION_NOT_PERMITTED = "OperationNotPermitted";
    INCORRECT_STATE = "IncorrectState";

    INSUFFICIENT_INSTANCE_CAPACITY = "InsufficientInstanceCapacity", 500;
    INCORRECT_INSTANCE_STATE = "IncorrectInstanceState";
    IDEMPOTENT_INSTANCE_TERMINATED = "IdempotentInstanceTerminated";
    UNSUPPORTED_HIBERNATION_CONFIGURATION = "UnsupportedHibernationConfiguration";
    ATTACHMENT_LIMIT_EXCEEDED = "AttachmentLimitExceeded";
    UNSUPPORTED = "Unsupported";
    INVALID_INSTANCE_ID = "InvalidInstanceID";
    INSTANCE_LIMIT_EXCEEDED = "InstanceLimitExceeded";
    INVALID_INSTANCE_ID_NOT_FOUND = "InvalidInstanceID.NotFound";
    INVALID_INSTANCE_ID_MALFORMED = "InvalidInstanceID.Malformed";
    INVALID_INSTANCE_TYPE = "InvalidInstanceType";
    INVALID_INSTANCE_ATTRIBUTE_VALUE = "InvalidInstanceAttributeValue";
    INVALID_USER_DATA_MALFORMED = "InvalidUserData.Malformed";
    INVALID_AMI_ID_NOT_FOUND = "InvalidAMIID.NotFound";
    INVALID_AMI_ID_MALFORMED = "InvalidAMIID.Malformed";
    INVALID_AMI_ID_UNAVAILABLE = "InvalidAMIID.Unavailable";
    INVALID_AMI_NAME_DUPLICATE = "InvalidAMIName.Duplicate";
    INVALID_AMI_NAME_MALFORMED = "InvalidAMIName.Malformed";
    INVALID_BLOCK_DEVICE_MAPPING = "InvalidBlockDeviceMapping";
    INVALID_KEY_PAIR_NOT_FOUND = "InvalidKeyPair.NotFound";
    INVALID_KEY_PAIR_DUPLICATE = "InvalidKeyPair.Duplicate";
    INVALID_KEY_FORMAT = "InvalidKey.Format";
    INVALID_KEY_PAIR_FORMAT = "InvalidKeyPair.Format";
    KEY_PAIR_LIMIT_EXCEEDED = "KeyPairLimitExceeded";
    INVALID_VOLUME_NOT_FOUND = "InvalidVolume.NotFound";
    INVALID_VOLUME_ID_MALFORMED = "InvalidVolumeID.Malformed";
    INVALID_SNAPSHOT_NOT_FOUND = "InvalidSnapshot.NotFound";
    INVALID_SNAPSHOT_ID_MALFORMED = "InvalidSnapshotID.Malformed";
    INVALID_SNAPSHOT_IN_USE = "InvalidSnapshot.InUse";
    INVALID_IAM_INSTANCE_PROFILE_NOT_FOUND = "InvalidIamInstanceProfile.NotFound";
    INVALID_PLACEMENT_GROUP_UNKNOWN = "InvalidPlacementGroup.Unknown";
    INVALID_LAUNCH_TEMPLATE_NOT_FOUND = "InvalidLaunchTemplateId.NotFound";
    INVALID_ZONE_NOT_FOUND = "InvalidZone.NotFound";

    INVALID_VPC_ID_NOT_FOUND = "InvalidVpcID.NotFound";
    INVALID_VPC_ID_MALFORMED = "InvalidVpcID.Malformed";
    VPC_ID_NOT_SPECIFIED = "VPCIdNotSpecified";
    INVALID_SUBNET_ID_NOT_FOUND = "InvalidSubnetID.NotFound";
    INVALID_SUBNET_ID_MALFORMED = "InvalidSubnetID.Malformed";
    MISSING_INPUT = "MissingInput";
    INSUFFICIENT_FREE_ADDRESSES_IN_SUBNET = "InsufficientFreeAddressesInSubnet";
    INSUFFICIENT_ADDRESS_CAPACITY = "InsufficientAddressCapacity", 500;
    INVALID_IP_ADDRESS_IN_USE = "InvalidIPAddress.InUse";
    INVALID_ROUTE_TABLE_ID_NOT_FOUND = "InvalidRouteTableID.NotFound";
    INVALID_ROUTE_TABLE_ID_MALFORMED = "InvalidRouteTableId.Malformed";
    INVALID_INTERNET_GATEWAY_ID_NOT_FOUND = "InvalidInternetGatewayID.NotFound";
    INVALID_INTERNET_GATEWAY_ID_MALFORMED = "InvalidInternetGatewayId.Malformed";
    INVALID_NETWORK_ACL_ID_NOT_FOUND = "InvalidNetworkAclID.NotFound";
    INVALID_NETWORK_ACL_ID_MALFORMED = "InvalidNetworkAclId.Malformed";
    INVALID_NETWORK_INTERFACE_ID_NOT_FOUND = "InvalidNetworkInterfaceID.NotFound";
    INVALID_NETWORK_INTERFACE_ID_MALFORMED = "InvalidNetworkInterfaceId.Malformed";
    INVALID_NETWORK_INTERFACE_IN_USE = "InvalidNetworkInterface.InUse";
    INVALID_GROUP_NOT_FOUND = "InvalidGroup.NotFound";
    INVALID_SECURITY_GROUP_ID_NOT_FOUND = "InvalidSecurityGroupID.NotFound";
    INVALID_GROUP_ID_MALFORMED = "InvalidGroupId.Malformed";
    INVALID_GROUP_DUPLICATE = "InvalidGroup.Duplicate";
    INVALID_GROUP_RESERVED = "InvalidGroup.Reserved";
    INVALID_GROUP_IN_USE = "InvalidGroup.InUse";
    CANNOT_DELETE = "CannotDelete";
    INVALID_PERMISSION_DUPLICATE = "InvalidPermission.Duplicate";
    INVALID_PERMISSION_NOT_FOUND = "InvalidPermission.NotFound";
    INVALID_PERMISSION_MALFORMED = "InvalidPermission.Malformed";
    INVALID_SECURITY_GROUP_RULE_ID_NOT_FOUND = "InvalidSecurityGroupRuleId.NotFound";
    INVALID_SECURITY_GROUP_RULE_ID_MALFORMED = "InvalidSecurityGroupRuleId.Malformed";
    RULES_PER_SECURITY_GROUP_LIMIT_EXCEEDED = "RulesPerSecurityGroupLimitExceeded";
    SECURITY_GROUP_LIMIT_EXCEEDED = "SecurityGroupLimitExceeded";
    SECURITY_GROUPS_PER_INTERFACE_LIMIT_EXCEEDED = "SecurityGroupsPerInterfaceLimitExceeded";
    INVALID_PREFIX_LIST_ID_NOT_FOUND = "InvalidPrefixListID.NotFound";
    INVALID_ADDRESS_NOT_FOUND = "InvalidAddress.NotFound";
    INVALID_ALLOCATION_ID_NOT_FOUND = "InvalidAllocationID.NotFound";
    INVALID_ID = "InvalidID";
    INVALID_DHCP_OPTION_ID_NOT_FOUND = "InvalidDhcpOptionID.NotFound";
    TAG_LIMIT_EXCEEDED = "TagLimitExceeded";

    MISSING_AUTHENTICATION_TOKEN = "MissingAuthenticationToken", 403;
    INCOMPLETE_SIGNATURE = "IncompleteSignature";
    INVALID_CLIENT_TOKEN_ID = "InvalidClientTokenId", 403;
    SIGNATURE_DOES_NOT_MATCH = "SignatureDoesNotMatch", 403;
    EXPIRED_TOKEN = "ExpiredToken", 403;
    ACCESS_DENIED = "AccessDenied", 403;
    THROTTLING = "Throttling";
    VALIDATION_ERROR = "ValidationError";
    SERIALIZATION_EXCEPTION = "SerializationException";
    MALFORMED_XML = "MalformedXML";
    MALFORMED_INPUT = "MalformedInput";
    INVALID_ARGUMENT = "InvalidArgument";
}
