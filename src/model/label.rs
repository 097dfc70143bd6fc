//! The keys of Docker labels: those of dockershim and cri-dockerd, for existing tools, and dockbridge's own.

/// The kind of the object: [`TYPE_SANDBOX`] or [`TYPE_CONTAINER`].
pub const TYPE: &str = "io.kubernetes.docker.type";
/// The value of [`TYPE`] on a pause container.
pub const TYPE_SANDBOX: &str = "podsandbox";
/// The value of [`TYPE`] on a workload container.
pub const TYPE_CONTAINER: &str = "container";
/// On a workload container: the Docker id of its sandbox.
pub const SANDBOX_ID: &str = "io.kubernetes.sandbox.id";
/// On a workload container: the absolute path of its CRI log, if it has one.
pub const LOG_PATH: &str = "io.kubernetes.container.logpath";
/// Kubelet's label with the container's name.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// The value of [`CONTAINER_NAME`] on a sandbox.
pub const SANDBOX_CONTAINER_NAME: &str = "POD";
/// Kubelet's label with the pod's name.
pub const POD_NAME: &str = "io.kubernetes.pod.name";
/// Kubelet's label with the pod's namespace.
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// Kubelet's label with the pod's uid.
pub const POD_UID: &str = "io.kubernetes.pod.uid";
/// The prefix of the labels that contain CRI annotations.
pub const ANNOTATION_PREFIX: &str = "annotation.";
/// dockbridge's own JSON document on a sandbox ([`crate::model::document::SandboxDocument`]), from which dockbridge
/// reads the pod. Without a readable document, dockbridge reads the other labels and the name.
pub const SANDBOX_DOCUMENT: &str = "io.dockbridge.sandbox";
/// dockbridge's own JSON document on a container ([`crate::model::document::ContainerDocument`]).
pub const CONTAINER_DOCUMENT: &str = "io.dockbridge.container";
/// The label of an inspection container, which is never started and only exists so that dockbridge can read
/// files of its image. The container can be removed when the dockbridge process that created it has ended.
pub const IMAGE_INSPECTION: &str = "io.dockbridge.image-inspection";
/// The label of an image pin: a container that is never started, and only exists so that its image is not removed,
/// unless by force, while the image's files are mounted into other containers.
pub const IMAGE_PIN: &str = "io.dockbridge.image-pin";
/// OCI annotation, not a label: containers of one group share one containerd shim.
pub const OCI_SHIM_GROUP: &str = "io.containerd.runc.v2.group";
