//! Service: the instance, image, volume and snapshot half of EC2.
