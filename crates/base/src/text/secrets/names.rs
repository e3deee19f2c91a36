//! Which names introduce a secret.

use crate::text::is_one_of;

/// Words that name a secret when they end a name.
const SECRETS: &str = "password passwords passwd passphrase passcode pwd pw passin passout secret secrets credential credentials creds \
    apikey apikeys accesskey secretkey privatekey authorization auth dsn jwt bearer cookie connstr";
/// A name may be written in one word that ends like this (`PGPASSWORD`, `clientsecret`).
const ENDINGS: &str = "password passwd passphrase passcode secret apikey secretkey accesskey privatekey authtoken accesstoken apitoken \
    bearertoken secrettoken";
/// `key` names a secret after one of these (`api-key`, `aws_secret_access_key`). A sort key, an image's key or the size
/// of a key in attention is not a secret.
const KEYS: &str = "api access secret private encryption encrypt decryption signing sign auth account storage shared license ssh \
    service subscription master admin client app application aes hmac wandb openai anthropic comet neptune clearml \
    s3 aws azure gcp hf huggingface deploy registration ingest kaggle ngc mistral cohere replicate together groq \
    gemini langchain pinecone roboflow stripe sendgrid";
/// `tokens`, the pieces of a text, are secrets only after one of these.
const TOKENS: &str = "access auth api bearer refresh hub hf secret session github security";
/// `token` is a piece of text, not a secret, after one of these.
const TEXT_TOKENS: &str = "pad padding eos bos unk unknown mask masked sep cls special image img audio video vision stop end start begin \
    first last next prev previous per each by num max min n k prefix suffix think thinking system assistant tool new \
    extra added decoder encoder language lang task domain class patch blank word sub target source speech text \
    prompt response placeholder boi eoi bot eot im fim newline separator trigger init initializer register reg \
    latent query draft input output single every global virtual memory soft empty null drop rare instance modifier \
    forced control dist distill distillation cross multi sample sampled generated predicted label eod pred";
/// `pass` and `pat` name a secret alone (`pass`) or after one of these; a forward pass or a pattern is not a secret.
const OWNERS: &str = "db database smtp mail email mysql pg postgres redis mongo user admin root proxy http https ftp ssh login \
    rabbitmq sudo key cert my wifi app github gitlab gh devops azure git storage s3";
/// `token` in one word after one of these (`HFTOKEN`).
const GLUED_TOKENS: &str = "hf hub github gitlab gh wandb refresh id session user my bot slack npm pypi x csrf login huggingface security \
    vault jupyter";
/// Parameters of signed URLs and headers.
const SIGNATURES: &str = "signature sig sas";
/// Signers whose signature counts even outside URL parameters (`X-Amz-Signature`).
const SIGNERS: &str = "amz goog x sas";
/// URL parameters that grant access, but mean other things elsewhere.
const PARAMETERS: &str = "key code signature sig pass accesskeyid awsaccesskeyid policy";
/// A name may end in one of these (`API_KEY_VALUE`, `secret_id`); the words before it decide.
const FILLERS: &str = "value val str string plain b64 base64";

/// Whether the value with this name is a secret. `is_parameter`: it is a URL parameter (`?name=`).
pub(super) fn is_secret(name: &str, is_parameter: bool) -> bool {
    // The working directory, set by every shell.
    if matches!(name, "PWD" | "OLDPWD") {
        return false;
    }
    let words = words(name);
    let mut words: Vec<&str> = words.iter().map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit())).collect();
    words.retain(|word| !word.is_empty());
    if let [.., "connection" | "conn", "string" | "str"] = words.as_slice() {
        return true;
    }
    while words.len() > 1 && words.last().is_some_and(|last| is_one_of(FILLERS, last)) {
        words.pop();
    }
    let [before @ .., last] = words.as_slice() else { return false };
    let previous = before.last().copied();
    let after = |known: &str| previous.is_some_and(|word| is_one_of(known, word));
    let glued_token = || last.strip_suffix("token").is_some_and(|begin| is_one_of(GLUED_TOKENS, begin));
    match *last {
        "token" => !after(TEXT_TOKENS),
        "tokens" => after(TOKENS),
        "key" | "keys" => after(KEYS) || is_parameter && previous.is_none(),
        "pass" => previous.is_none() || after(OWNERS),
        "pat" => after(OWNERS),
        "id" if previous == Some("secret") => true,
        last if is_one_of(SIGNATURES, last) => is_parameter || after(SIGNERS),
        last if is_parameter && is_one_of(PARAMETERS, last) => true,
        last => is_one_of(SECRETS, last) || ENDINGS.split(' ').any(|ending| last.ends_with(ending)) || glued_token(),
    }
}

/// The words of a name in lower case: split at anything except letters and digits, and where a capital starts a word
/// (`hfToken`, `APIKey`).
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        let begins = letter.is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || before.is_ascii_uppercase() && letters.peek().is_some_and(char::is_ascii_lowercase));
        if !letter.is_ascii_alphanumeric() || begins {
            words.push(String::new());
        }
        if letter.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(letter.to_ascii_lowercase());
        }
        before = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a value is harmless although its name suggests a secret: a switch, the path of a file with credentials, an
/// authentication method, the number or text of a token.
pub(super) fn is_harmless(name: &str, value: &str) -> bool {
    let value = value.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';'));
    // All of these are short.
    if value.len() > 4096 {
        return false;
    }
    let lower = value.to_ascii_lowercase();
    if matches!(lower.as_str(), "" | "true" | "false" | "none" | "null") {
        return true;
    }
    let name = name.to_ascii_lowercase();
    let is_number = |longest| value.len() <= longest && value.bytes().all(|b| b.is_ascii_digit());
    let is_framed = |(open, close)| value.len() <= 32 && value.starts_with(open) && value.ends_with(close);
    let is_path = || {
        let begins = ["/", "./", "../", "~/"].iter().any(|begin| value.starts_with(begin));
        let ends = [".json", ".yaml", ".yml", ".ini", ".pem", ".key", ".toml", ".txt"]
            .iter()
            .any(|end| lower.ends_with(end));
        (begins || ends) && !value.contains("://")
    };
    if name.ends_with("token") {
        is_number(5) || is_framed(('<', '>')) || is_framed(('[', ']'))
    } else if name.ends_with("auth") {
        matches!(
            lower.as_str(),
            "basic" | "digest" | "ntlm" | "oauth" | "oauth2" | "kerberos" | "negotiate" | "munge"
        )
    } else if name.ends_with("pass") {
        is_number(1)
    } else {
        let holds_paths = ["credential", "credentials", "creds", "private-key", "private_key", "ssh-key", "ssh_key"];
        holds_paths.iter().any(|end| name.ends_with(end)) && is_path()
    }
}
