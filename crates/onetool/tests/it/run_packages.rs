//! Packages for code: installed once with the real `uv`, and nothing else becomes readable.

use crate::client::Project;

/// Two small packages, one of them through a requirements file.
#[tokio::test]
async fn packages_are_installed_once_and_work_offline_afterwards() {
    let project = Project::with("run:\n  packages: [six==1.16.0, requirements.txt]\n  preload: [six]\n");
    project.write("requirements.txt", "# small ones\niniconfig==2.0.0\n");
    let client = project.serve().await;
    let code = "import six, iniconfig\nsix.__version__, iniconfig.__name__";
    assert_eq!(client.ok(code).await, "[\"1.16.0\",\"iniconfig\"]");
    // Only its own folder can be read.
    let library = client.ok("import six\nsix.__file__").await;
    assert!(library.contains("/environments/") && library.ends_with("/site-packages/six.py"), "{library}");
    let lock = std::path::Path::new(&library).parent().unwrap().parent().unwrap().join("packages.lock");
    assert!(std::fs::read_to_string(&lock).unwrap().contains("iniconfig==2.0.0"));
    let text = client.err("file.write('requirements.txt', 'evil')").await;
    assert!(text.starts_with("PermissionError:"), "{text}");
    // A missing package is reported with its configuration key.
    let text = client.err("import attr").await;
    assert!(text.starts_with("ModuleNotFoundError:") && text.contains("run: {packages: ["), "{text}");
    drop(client);
    let offline = [("UV_OFFLINE".to_owned(), "1".to_owned()), ("UV_CACHE_DIR".to_owned(), "/nowhere".to_owned())];
    let client = project.serve_in(&["serve"], &offline).await;
    assert_eq!(client.ok(code).await, "[\"1.16.0\",\"iniconfig\"]");
}

#[tokio::test]
async fn a_package_that_does_not_exist_leaves_python_without_packages() {
    let project = Project::with("run:\n  packages: [onetool-no-such-package-0123456789]\n");
    let client = project.serve().await;
    assert_eq!(client.ok("class A(int):\n    pass\nA(2)").await, "2");
    let text = client.err("import onetool_no_such_package_0123456789").await;
    assert!(text.contains("the packages of run.packages are not there: uv could not install"), "{text}");
    let health = client.ok("ot.health()").await;
    assert!(health.contains("run.packages") && health.contains("uv could not install"), "{health}");
}

/// Frames become records, arrays lists, figures and pictures images; also with the zygote's preloaded modules.
#[tokio::test]
async fn values_of_packages_come_out_plain() {
    let project = Project::with(
        "run:\n  packages: [pandas, matplotlib, pillow]\n  preload: [pandas, matplotlib.pyplot]\n  total_timeout: 900\n",
    );
    project.write("sales.csv", "city,amount\nOslo,1\nRome,2\nOslo,4\n");
    let client = project.serve().await;
    let service = &client.service;
    // The first run waits for uv.
    let first = tokio::time::timeout(
        std::time::Duration::from_mins(15),
        service.call_tool(crate::client::call("import pandas as pd\npd.DataFrame({'a': [1, 2]})")),
    );
    let first = crate::client::Answer::of(&first.await.unwrap().unwrap());
    assert_eq!(first.text, "[{\"a\":1},{\"a\":2}]");
    let read = "import pandas as pd\ndf = pd.read_csv('sales.csv')\n";
    for (code, expected) in [
        ("df.groupby('city').sum()", "[{\"city\":\"Oslo\",\"amount\":5},{\"city\":\"Rome\",\"amount\":2}]"),
        ("df['amount'].mean()", "2.3333333333333335"),
        ("df['city'].value_counts()", "{\"Oslo\":2,\"Rome\":1}"),
        ("df['amount']", "[1,2,4]"),
        ("df.values", "[[\"Oslo\",1],[\"Rome\",2],[\"Oslo\",4]]"),
        ("df['amount'].to_numpy() * 2", "[2,4,8]"),
        ("df['amount'].sum()", "7"),
        ("pd.to_datetime('2024-05-01')", "\"2024-05-01T00:00:00\""),
        ("pd.NaT", "None"),
        ("(df['amount'] > 1).tolist()", "[false,true,true]"),
        ("df.to_csv('out.csv', index=False)\nopen('out.csv').read()", "city,amount\nOslo,1\nRome,2\nOslo,4\n"),
    ] {
        assert_eq!(client.ok(&format!("{read}{code}")).await.trim_end(), expected.trim_end(), "{code}");
    }
    let pictures = [
        "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2])\nfig",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
        "import pandas as pd\npd.Series([1, 2]).plot()",
        "from PIL import Image\nImage.new('RGB', (4, 4), 'red')",
    ];
    for code in pictures {
        let answer = client.run(code).await;
        let image = answer.content.iter().find(|block| block["type"] == "image");
        let image = image.unwrap_or_else(|| panic!("{code}\n{}", answer.text));
        // The signature of PNG files, in base64.
        assert!(image["data"].as_str().unwrap().starts_with("iVBORw0KGgo"), "{code}");
    }
    // Packages do not weaken the restrictions.
    for code in ["import os\nos.fork()", "import socket\nsocket.socket()", "open('/etc/passwd')"] {
        assert!(client.err(code).await.starts_with("PermissionError:"), "{code}");
    }
    assert!(client.err("import ctypes\nctypes.CDLL(None).system(b'true') == 0 or 1 / 0").await.contains("Error"));
}

#[tokio::test]
async fn an_untrusted_project_installs_nothing() {
    let project = Project::with("run:\n  packages: [six]\n");
    for arguments in [&["init", "-q"][..], &["add", "-A"]] {
        assert!(
            std::process::Command::new("git").args(arguments).current_dir(project.path()).status().unwrap().success()
        );
    }
    let client = project.serve().await;
    assert!(client.err("import six").await.starts_with("ModuleNotFoundError:"));
    assert!(!project.home().join(".onetool/environments").exists());
    assert!(client.ok("ot.health()").await.contains("run.packages"));
}
