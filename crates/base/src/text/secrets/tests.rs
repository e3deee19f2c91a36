use proptest::prelude::*;

use super::*;

/// Arguments parted by `¦`, masked and joined likewise.
fn masked(arguments: &str) -> String {
    mask_arguments(&arguments.split('¦').collect::<Vec<_>>()).join("¦")
}

/// What is given, with every secret written as `‹secret›`, and so what must come out.
const MASKED: &[&str] = &[
    // A value behind an equals sign.
    "python¦train.py¦--api-key=‹abc123›¦--lr¦0.1",
    "python¦--api_key=‹a b c›",
    "python¦--apikey=‹x›¦--wandb.api_key=‹x›¦--wandbApiKey=‹x›¦-Dpassword=‹x›",
    "python¦--password=‹-x=y;z&a,b)›",
    "python¦trainer.logger.token=‹x›¦++hub.secret_key=‹y›",
    // A value in the next argument.
    "python¦--password¦‹hunter2›¦--lr¦0.1",
    "python¦--hub-token¦‹two words›¦train.py",
    "python¦--secrets¦‹a›¦‹b›¦--lr¦1",
    "python¦--token¦‹-Xy1_abcdefghijklmnop›¦x",
    "python¦--use-auth-token¦‹hf›¦x",
    // The environment and scripts.
    "env¦HF_TOKEN=‹x›¦WANDB_API_KEY=‹y,z›¦PASSPHRASE=‹correct horse›¦python",
    "sh¦-c¦export API_KEY=‹x›; python train.py",
    "bash¦-lc¦HF_TOKEN=‹x› python train.py --lr 1",
    "sh¦-c¦curl --password '‹a b›' --token \"‹c›\" x",
    "docker¦run¦-e¦HF_TOKEN=‹x›¦--env=DB_PASSWORD=‹y›¦-eGITHUB_PAT=‹z›¦img",
    "env¦PGPASSWORD=‹x›¦HFTOKEN=‹y›¦AWS_SECRET_ACCESS_KEY=‹/z+q=›¦SENTRY_DSN=‹https://x›¦TOKEN2=‹x›¦python",
    "env¦KAGGLE_KEY=‹x›¦OPENAI_KEY=‹y›¦NGC_CLI_API_KEY=‹z›¦python",
    "mount¦-o¦username=bob,password=‹x›",
    "java¦-Dfs.s3a.secret.key=‹x›¦-Dssl.keyPassword=‹y›",
    "python¦--password:‹x›¦--password ‹hunter2›",
    "x¦AZURE_STORAGE_CONNECTION_STRING=‹AccountName=a;AccountKey=b›",
    // JSON, YAML, Python.
    "python¦--config¦{\"token\": \"‹x›\", \"lr\": 1}",
    "python¦{\"db\":{\"password\":\"‹x\\\"y›\",\"port\":1}}",
    "python¦\"{\\\"token\\\": \\\"‹x›\\\", \\\"lr\\\": 1}\"",
    "python¦-c¦import os; os.environ[\"HF_TOKEN\"] = \"‹x›\"; train()",
    "python¦-c¦connect(user='me', password='‹x›', port=1)",
    "python¦-c¦run([\"x\", \"--password\", \"‹y›\"])",
    "python¦token: ‹x›",
    // Headers.
    "curl¦-H¦Authorization: Bearer ‹x y›¦https://h/",
    "curl¦-H¦X-Api-Key: ‹x›¦-H¦Cookie: ‹a=b; c=d›",
    "sh¦-c¦curl -H 'Authorization: Basic ‹dXNlcjpwYXNz›' https://h/",
    "python¦use Bearer ‹abcdef› here",
    "git¦-c¦http.extraheader=Authorization: Basic ‹abc›¦fetch",
    // URLs.
    "python¦--data=s3://me:‹pa@ss›@host:9000/b?x=1",
    "python¦redis://:‹x›@h,redis://:‹y›@h2/0",
    "python¦mongodb://u:‹x›@h1,h2:27017/db¦postgres://u:‹a/b›@h/db",
    "python¦--db=me:‹pass›@host/db¦me:‹pass›@10.0.0.1",
    "git¦clone¦https://‹0123456789abcdef0123456789abcdef›@o1.ingest.sentry.io/1",
    "python¦https://h/x?token=‹a›&lr=1&key=‹b›#c",
    "python¦https://b.s3.amazonaws.com/x?X-Amz-Credential=‹a›&X-Amz-Date=1&X-Amz-Signature=‹c›&X-Amz-Security-Token=‹d›",
    "python¦https://a.blob.core.windows.net/c?sv=1&sig=‹x%3D›",
    "python¦https://hooks.slack.com/services/‹T/B/x›",
    // What is told by its look.
    "python¦hf_‹›",
    // Programs.
    "sshpass¦-p¦‹x›¦ssh¦-p¦22¦h",
    "/usr/bin/mysql¦-u¦me¦-p‹x›¦db",
    "curl¦-u¦me:‹x›¦--user=me:‹y›¦https://h",
    "docker¦login¦-u¦me¦-p¦‹x›¦reg",
    "redis-cli¦-a¦‹x›¦ping",
    "wandb¦login¦--relogin¦‹0123456789abcdef0123456789abcdef01234567›",
    "sh¦-c¦sshpass -p ‹x› ssh h; wandb login ‹0123456789abcdef0123456789abcdef01234567›",
];

#[test]
fn secrets_are_masked_and_nothing_else() {
    for row in MASKED.iter().filter(|row| !row.contains("‹›")) {
        let given = row.replace(['‹', '›'], "");
        let mut wanted = String::new();
        for (position, part) in row.split(['‹', '›']).enumerate() {
            wanted += if position % 2 == 1 { MASK } else { part };
        }
        assert_eq!(masked(&given), wanted, "of {given}");
        assert_eq!(masked(&wanted), wanted, "again");
        // Once joined, as recordings of before have it, no value of one word is left either.
        let line = super::line(&given.replace('¦', " ")).into_owned();
        for secret in row.split(['‹', '›']).skip(1).step_by(2).filter(|s| s.len() > 2 && !s.contains([' ', ',', '-']))
        {
            assert!(!line.contains(secret), "{secret} in {line}");
        }
    }
}

#[test]
fn tokens_are_told_by_their_look() {
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N";
    for token in [
        "hf_abcdefghijKLMNOP1234567890",
        "ghp_0123456789abcdefghij0123456789abcdef",
        "github_pat_11ABCDEFG0_abcdefghijklmnop",
        "glpat-abcDEF123-_abcdefgh",
        "sk-abcdef0123456789ABCDEF",
        "sk-proj-abc_DEF-0123456789abcdef",
        "sk-ant-api03-abcdefghij0123456789-AA",
        "xoxb-1234567890-abcdefghij",
        "AKIAIOSFODNN7EXAMPLE",
        "ASIAIOSFODNN7EXAMPLE",
        "AIzaSyA-1234567890abcdefghijklmnopqrstu",
        "ya29.a0AfH6SMBabc-def",
        "npm_abcdefghijKLMNOP1234567890",
        "pypi-AgEIcHlwaS5vcmcCJDAxMjM",
        "dckr_pat_abc-DEF_1234567890",
        "SG.abcdefghijkl.mnopqrstuvwxyz0123",
        jwt,
    ] {
        for (before, after) in [("", ""), ("x=", " y"), ("/data/", "/b.bin"), ("https://", "@h/x"), ("\"", "\",")] {
            let text = format!("{before}{token}{after}");
            let wanted = format!("{before}{MASK}{after}");
            assert_eq!(super::line(&text), wanted);
            assert_eq!(super::prose(&text), wanted);
            assert_eq!(masked(&text), wanted);
        }
    }
    let key = "-----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n-----END RSA PRIVATE KEY-----";
    assert_eq!(masked(key), "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----");
    assert_eq!(super::prose("-----BEGIN PRIVATE KEY-----abc"), "-----BEGIN PRIVATE KEY-----***");
}

#[test]
fn what_training_programs_say_stays() {
    for arguments in [
        "python¦train.py¦--tokenizer¦gpt2¦--tokenizer=/m/t.json¦--max-tokens¦512¦--num_tokens=3¦--token-budget¦4096",
        "python¦--pad-token-id¦0¦--eos_token¦</s>¦--bos-token=<s>¦--mask_token¦x¦--placeholder_token¦cat¦--per-token¦1",
        "python¦--author¦me¦--authors¦a,b¦--key-dim¦64¦--keys¦a,b¦--monitor-key¦loss¦--sort-key=x¦--image_key¦jpg",
        "python¦--password-file¦/run/x¦--token-file=/run/y¦--passwordfile¦z¦--secret-santa¦joe¦--num-key-value-heads¦8",
        "python¦--use-auth-token¦--lr¦0.1¦--use_auth_token=True¦--token¦None¦--token=50256¦--auth¦basic",
        "python¦--credentials¦/home/me/key.json¦GOOGLE_APPLICATION_CREDENTIALS=/home/me/key.json¦--ssh-key¦~/.ssh/id",
        "env¦PWD=/home/me¦TOKENIZERS_PARALLELISM=false¦SSH_AUTH_SOCK=/tmp/x¦python¦-p¦8080¦-u¦train.py",
        "docker¦run¦-p¦80:80¦img@sha256:0123¦reg/img:1@sha256:0123",
        "python¦--forward-pass¦2¦--n_pass=3¦--passes¦4¦--compass¦x¦--bypass¦y¦--seed¦1¦--pin-memory¦--pin¦1",
        "python¦--git-sha¦0123456789abcdef0123456789abcdef01234567¦--logger¦wandb",
        "python¦--name¦hf_dataset_loader¦sk-learn-experiment-final¦npm_config_registry¦risk-model¦pypi-mirror¦eyJ.x",
        "python¦-m¦torch.distributed.run¦--master_addr=10.0.0.1:29500¦http://h:8080/a@b¦git@github.com:me/x.git",
        "python¦-c¦from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)¦--multiprocessing-fork",
        "scp¦me@host:/x¦host:/y¦s3://bucket/key=1/part¦2026-01-01T10:00:00",
        "python¦-c¦def f(token: str, key: Tensor): pass",
        "python¦--token-type¦x¦--auth-type¦y¦--secret-name¦z¦--api-key-env¦NAME¦--cookie-jar¦/x",
    ] {
        assert_eq!(masked(arguments), arguments);
        // Joined, the same.
        let line = arguments.replace('¦', " ");
        assert_eq!(super::line(&line), line);
    }
}

#[test]
fn code_and_paths_keep_what_is_no_literal() {
    for code in [
        "next_token = model.generate(token=prompt, key=key)",
        "token = tokenizer.decode(ids)",
        "password = getpass.getpass()",
        "def forward(self, token: Tensor, secret: str):",
        "/data/token=5/part-0.parquet",
        "10.0.0.1@tcp:10.0.0.2@tcp:/lustre",
        "server:/export@1",
        "//server/share",
    ] {
        assert_eq!(super::prose(code), code);
    }
    for (code, wanted) in [
        ("api_key = \"sk-1\"  # x", "api_key = \"***\"  # x"),
        ("client = C(token=f'abc', n=1)", "client = C(token=f'***', n=1)"),
        ("{'Authorization': 'Bearer abc'}", "{'Authorization': 'Bearer ***'}"),
        ("run([\"--password\", \"x\"])", "run([\"--password\", \"***\"])"),
        ("me:secret@host:/x", "me:***@host:/x"),
        ("https://me:secret@dav/x", "https://me:***@dav/x"),
        ("if token == \"abc\":", "if token == \"***\":"),
        ("PASSWORD = \"\"\"a\"b\"\"\"", "PASSWORD = \"\"\"***\"\"\""),
    ] {
        assert_eq!(super::prose(code), wanted);
    }
}

#[test]
fn long_text_takes_linear_time() {
    for part in [
        "token=\"",
        "--password \"",
        "a:b@c",
        "a://b:c",
        "eyJ.",
        "eyJaaaaaa.b.",
        "-----",
        "ya29.",
        "sk-a-",
        "x=",
        "Bearer ",
        "\\\"",
        "-----BEGIN PRIVATE KEY-----",
        "credentials=\"/",
        "--token none ",
        "ghp_",
        "token ",
        "?sig=",
        "password='''",
        "@",
        "://",
    ] {
        let text = part.repeat((256 << 10) / part.len());
        let began = std::time::Instant::now();
        let once = super::line(&text).into_owned();
        let _ = (super::prose(&text), mask_arguments(&[&text]));
        // Quadratic time would take several minutes.
        assert!(began.elapsed().as_secs() < 60, "{part}");
        assert_eq!(super::line(&once), once, "{part}");
    }
}

/// Text that is made of what the rules look for.
fn pieces() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "token",
        "--password",
        "API_KEY",
        "secret",
        "=",
        ":",
        " ",
        " ",
        "\"",
        "'",
        "\\",
        "://",
        "@",
        "?",
        "&",
        "Bearer ",
        "hf_",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJI.eyJzdWIi.x",
        "-----BEGIN PRIVATE KEY-----",
        "-----",
        "sk-abcdef0123456789",
        ",",
        ";",
        "-p",
        "curl",
        "-u",
        "wandb",
        "login",
        "***",
        "/",
        ".",
        "é",
        "\n",
        "x",
        "none",
        "sshpass",
        "]",
        "f\"",
        "Authorization: ",
    ]);
    prop::collection::vec(prop_oneof![4 => known.prop_map(str::to_owned), 1 => "\\PC{0,4}"], 0..24)
        .prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn masking_again_changes_nothing(text in pieces(), more in prop::collection::vec(pieces(), 0..4)) {
        for mask in [super::line, super::prose] {
            let once = mask(&text).into_owned();
            prop_assert_eq!(mask(&once), once.as_str());
        }
        let once = mask_arguments(&more.iter().map(String::as_str).collect::<Vec<_>>());
        let again: Vec<&str> = once.iter().map(AsRef::as_ref).collect();
        prop_assert_eq!(mask_arguments(&again).join("¦"), once.join("¦"));
    }

    #[test]
    fn any_text_is_masked_without_harm(text in any::<String>(), arguments in prop::collection::vec(any::<String>(), 0..5)) {
        let (line, prose) = (super::line(&text), super::prose(&text));
        prop_assert!(line.len() <= text.len() * 4 + 3 && prose.len() <= text.len() * 4 + 3);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        prop_assert_eq!(mask_arguments(&arguments).len(), arguments.len());
    }

    #[test]
    fn a_value_behind_a_secret_name_never_stays(
        name in prop::sample::select(vec!["--api-key", "--password", "--hub_token", "--db.passwd", "--clientSecret"]),
        value in "[!-~]{6,40}",
        glued in any::<bool>(),
    ) {
        prop_assume!(!is_option(&value) && !names::is_harmless(name, &value));
        let glued_form = format!("{name}={value}");
        let arguments = if glued { vec!["python", &glued_form] } else { vec!["python", name, &value] };
        let masked = mask_arguments(&arguments).join(" ");
        let wanted = format!("python {name}{}***", if glued { '=' } else { ' ' });
        prop_assert_eq!(masked, wanted);
    }

    #[test]
    fn ordinary_words_stay(text in "[a-z]{1,9}( [a-z]{1,9}| --[a-z]{1,5}=[0-9.]{1,4}| [0-9]{1,6}){0,9}") {
        prop_assume!(!["pass", "pw", "auth", "dsn", "jwt", "pat", "secret", "token", "cookie", "creds", "login"].iter().any(|word| text.contains(word)));
        prop_assert_eq!(super::line(&text), text.as_str());
    }
}
