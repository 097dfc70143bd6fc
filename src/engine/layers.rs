//! The directories of an image's layers, from its inspect.

use std::path::PathBuf;

use hyper::Method;

use super::{
    client::Engine,
    error::{Call, EngineError, Subject},
};
use crate::{model::id::ImageId, wire::docker};

impl Engine {
    /// The directories of an image's layers, topmost first. None if the storage driver is not overlay2, or
    /// if the engine does not report them.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] if there is no such image.
    pub async fn image_layers(&self, image: &ImageId) -> Result<Option<Vec<PathBuf>>, EngineError> {
        let subject = Subject::Image(image.to_string());
        let request = self.request(Method::GET, Call::INSPECT, subject, "/json")?;
        let inspect: docker::ImageInspect = self.json(request).await?;
        Ok(layers(&inspect.graph_driver))
    }
}

fn layers(driver: &docker::GraphDriver) -> Option<Vec<PathBuf>> {
    let top = driver.data.get("UpperDir").filter(|_| driver.name == "overlay2")?;
    let below = driver.data.get("LowerDir").map(String::as_str).unwrap_or_default();
    let below = below.split(':').filter(|path| !path.is_empty());
    Some(std::iter::once(top.as_str()).chain(below).map(PathBuf::from).collect())
}

#[cfg(test)]
mod tests {
    //! The layers in an image's inspect.

    use super::{PathBuf, docker::GraphDriver, layers};

    fn listed(text: &str) -> Option<Vec<String>> {
        let driver: GraphDriver = serde_json::from_str(text).unwrap();
        let shown = |path: PathBuf| path.display().to_string();
        layers(&driver).map(|all| all.into_iter().map(shown).collect())
    }

    #[test]
    fn layers_come_topmost_first() {
        let one =
            r#"{"Name":"overlay2","Data":{"MergedDir":"/d/a/merged","UpperDir":"/d/a/diff"}}"#;
        assert_eq!(listed(one), Some(vec!["/d/a/diff".to_owned()]));
        let three = r#"{"Name":"overlay2","Data":{"UpperDir":"/c","LowerDir":"/b:/a"}}"#;
        assert_eq!(listed(three), Some(["/c", "/b", "/a"].map(str::to_owned).to_vec()));
        for other in [
            r#"{"Name":"overlayfs","Data":null}"#,
            r#"{"Name":"vfs","Data":{"UpperDir":"/a"}}"#,
            r#"{"Name":"overlay2","Data":{}}"#,
            "{}",
        ] {
            assert_eq!(listed(other), None, "{other}");
        }
    }
}
