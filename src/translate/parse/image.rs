//! Parses image names, and the credentials of a pull.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use super::{
    error::{At, ParseError},
    text,
};
use crate::{
    model::{
        image::{Credentials, PullRequest},
        reference::{ImageReference, printable, registry_of},
    },
    wire::cri,
};

/// The image to pull, always with a tag or digest, and the credentials. Drops credentials for another registry, because
/// the engine would send them to the image's registry. Refuses an invalid reference. Also refuses an `auth` that cannot
/// be decoded, if `username` is empty.
pub fn pull_request(
    image: Option<&cri::ImageSpec>,
    auth: Option<&cri::AuthConfig>,
) -> Result<PullRequest, ParseError> {
    let name = image_name(image)?;
    let reference = ImageReference::parse(&name)
        .map_err(|error| ParseError::invalid(error.to_string()))
        .at("image.image")?;
    let credentials = auth.map(credentials).transpose().at("auth")?.flatten();
    let is_for = |address: &str| address.is_empty() || registry_of(address) == reference.domain();
    let credentials = credentials.filter(|given| is_for(&given.server_address));
    Ok(PullRequest { reference: reference.with_default_tag(), credentials })
}

/// The name of an image, without the prefix of old kubelets. Refuses a name that is empty or contains spaces or
/// control characters.
pub fn image_name(image: Option<&cri::ImageSpec>) -> Result<String, ParseError> {
    image.ok_or_else(ParseError::missing).and_then(name).at("image")
}

/// The image name in a ListImages filter, without a prefix of old kubelets. `None` means all images.
pub fn image_filter(given: Option<&cri::ImageFilter>) -> Option<String> {
    let name = given?.image.as_ref()?.image.as_str();
    (!name.is_empty()).then(|| bare_name(name).to_owned())
}

pub(super) fn name(image: &cri::ImageSpec) -> Result<String, ParseError> {
    let name = bare_name(&image.image);
    text::word(name).map_err(|_| refused(name)).at("image")
}

/// The image name as the user wrote it, but without credentials, because statuses and metrics show the name.
pub(super) fn user_name(image: &cri::ImageSpec) -> Result<String, ParseError> {
    let name = &image.user_specified_image;
    text::line(&printable(name)).map_err(|_| refused(name)).at("user_specified_image")
}

/// The error for an invalid image name. The error must not show a password that the name contains.
fn refused(name: &str) -> ParseError {
    ParseError::invalid(format!("is not an image name: {}", text::quoted(&printable(name))))
}

/// Removes the prefix `docker://` or `docker-pullable://`.
fn bare_name(name: &str) -> &str {
    PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

/// `None` if the request has neither a token nor a user name (in `username` or `auth`).
fn credentials(given: &cri::AuthConfig) -> Result<Option<Credentials>, ParseError> {
    let (username, password) = if given.username.is_empty() && !given.auth.is_empty() {
        decode(&given.auth)
            .ok_or_else(|| ParseError::invalid("is not base64 of user:password"))
            .at("auth")?
    } else {
        (given.username.clone(), given.password.clone())
    };
    let credentials = Credentials {
        username,
        password,
        server_address: given.server_address.clone(),
        identity_token: given.identity_token.clone(),
        registry_token: given.registry_token.clone(),
    };
    let anonymous = credentials.username.is_empty()
        && credentials.identity_token.is_empty()
        && credentials.registry_token.is_empty();
    Ok((!anonymous).then_some(credentials))
}

/// Decodes user name and password in `auth`: base64 with or without padding. Removes NULs at the end of the password.
fn decode(auth: &str) -> Option<(String, String)> {
    let config =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let bytes = [alphabet::STANDARD, alphabet::URL_SAFE]
        .iter()
        .find_map(|alphabet| GeneralPurpose::new(alphabet, config).decode(auth.trim()).ok())?;
    let text = String::from_utf8(bytes).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.trim_end_matches('\0').to_owned()))
}

const PREFIXES: [&str; 2] = ["docker-pullable://", "docker://"];
