use proptest::prelude::*;

use super::*;
use crate::testing::*;
use trainmon_sample::{ProcessSample, StackCount, StackFrame};

const TORCH: &str = "/opt/venv/lib/python3.11/site-packages/torch";
const PYTHON: &str = "/usr/lib/python3.11";

/// A frame written `file:line function` with the shorthands `T/` for torch and `P/` for the standard library.
fn frame(text: &str) -> StackFrame {
    let (place, function) = text.rsplit_once(' ').unwrap();
    let (file, line) = place.rsplit_once(':').unwrap();
    let file = match (file.strip_prefix("T/"), file.strip_prefix("P/")) {
        (Some(rest), _) => format!("{TORCH}/{rest}"),
        (_, Some(rest)) => format!("{PYTHON}/{rest}"),
        _ => file.to_owned(),
    };
    StackFrame { function: function.into(), file: file.into(), line: line.parse().unwrap(), text: None }
}

/// A window of one main thread; stacks are leaf first.
fn window(pid: u32, stacks: &[(&[&str], u32)]) -> StackWindow {
    let mut window = StackWindow { process: id(pid), ..StackWindow::default() };
    let mut thread = ThreadStacks { name: "MainThread".into(), tid: Some(pid), stacks: vec![] };
    for (frames, samples) in stacks {
        let from = window.frames.len() as u32;
        window.frames.extend(frames.iter().map(|text| frame(text)));
        thread.stacks.push(StackCount { frames: (from..window.frames.len() as u32).collect(), samples: *samples });
    }
    window.threads.push(thread);
    window
}

fn one(role: ProcessRole, frames: &[&str]) -> Activity {
    let stacks = process_stacks(&window(10, &[(frames, 1)]), role, (None, None));
    Activity::ALL.into_iter().find(|activity| stacks.main.get(*activity) == 1).unwrap()
}

fn rank(frames: &[&str]) -> Activity {
    one(ProcessRole::Rank, frames)
}

fn worker(frames: &[&str]) -> Activity {
    one(ProcessRole::Worker, frames)
}

#[test]
fn waiting_and_receiving() {
    let loader = [
        "T/utils/data/dataloader.py:1300 _MultiProcessingDataLoaderIter._try_get_data",
        "T/utils/data/dataloader.py:720 _BaseDataLoaderIter.__next__",
        "/home/me/train.py:30 main",
    ];
    let wait =
        [&["P/selectors.py:415 _PollLikeSelector.select", "P/multiprocessing/connection.py:947 wait"], &loader[..]]
            .concat();
    assert_eq!(rank(&wait), Activity::Waiting);
    let plain =
        ["P/selectors.py:415 select", "T/utils/data/dataloader.py:1300 _try_get_data", "/home/me/train.py:30 f"];
    assert_eq!(rank(&plain), Activity::Waiting, "py-spy before 0.4.3");
    let pinned = [&["P/threading.py:331 Condition.wait", "P/queue.py:180 Queue.get"], &loader[..]].concat();
    assert_eq!(rank(&pinned), Activity::Waiting);
    let receive = [&["T/multiprocessing/reductions.py:500 rebuild_storage_fd"], &loader[..]].concat();
    assert_eq!(rank(&receive), Activity::Receiving);
    assert_eq!(rank(&loader), Activity::Receiving, "unpickling has no frame of its own");
}

#[test]
fn the_calls_of_a_worker_begin_where_it_fetches() {
    let fetches = ["T/utils/data/_utils/fetch.py:54 fetch", "T/utils/data/_utils/worker.py:351 _worker_loop"];
    let forked = ["T/utils/data/dataloader.py:1100 __iter__", "/home/me/train.py:30 main"];
    let works = [&["/home/me/data.py:9 warp", "/home/me/data.py:20 __getitem__"], &fetches[..], &forked[..]].concat();
    let rests = [&["P/threading.py:331 wait", "P/queue.py:180 Queue.get"], &fetches[1..], &forked[..]].concat();
    let calls = process_stacks(&window(10, &[(&works, 8), (&rests, 30)]), ProcessRole::Worker, (None, None)).calls;
    let functions: Vec<_> = calls.calls.iter().map(|call| (&*call.function, call.samples)).collect();
    assert_eq!((functions, calls.samples), (vec![("__getitem__", 8), ("warp", 8)], 8));
}

#[test]
fn other_threads_are_seen_to_make_batches_or_something_else() {
    let aside = |others: &[(&[&str], u32)]| {
        let mut all = window(10, &[(&["P/threading.py:331 wait", "/home/me/train.py:30 main"], 9)]);
        for (at, stack) in (11..).zip(others) {
            let other = window(at, std::slice::from_ref(stack));
            let from = all.frames.len() as u32;
            all.frames.extend(other.frames);
            let mut thread = other.threads.into_iter().next().unwrap();
            thread.name = "Thread-1".into();
            thread.stacks[0].frames.iter_mut().for_each(|frame| *frame += from);
            all.threads.push(thread);
        }
        process_stacks(&all, ProcessRole::Rank, (None, None)).aside
    };
    let run = "P/concurrent/futures/thread.py:58 run";
    let search: (&[&str], u32) = (&["/home/me/tree.py:8 search", run], 5);
    let decode: (&[&str], u32) =
        (&["/opt/venv/lib/python3.11/site-packages/PIL/ImageFile.py:9 load", "/home/me/d.py:3 get", run], 4);
    let prefetch: (&[&str], u32) = (&["/home/me/d.py:3 Feeder.prefetch", "P/threading.py:975 run"], 3);
    let rests: (&[&str], u32) = (&["P/threading.py:331 wait", "/home/me/d.py:3 prefetch"], 7);
    let library: (&[&str], u32) = (&["/opt/venv/lib/python3.11/site-packages/tqdm/_monitor.py:9 run"], 8);
    assert_eq!(aside(&[search, rests, library]), (5, 0));
    assert_eq!(aside(&[search, decode, prefetch]), (12, 7));
}

#[test]
fn epoch_start() {
    let start = [
        "P/multiprocessing/popen_fork.py:66 Popen._launch",
        "T/utils/data/dataloader.py:1190 __init__",
        "T/utils/data/dataloader.py:492 DataLoader.__iter__",
        "/home/me/train.py:30 main",
    ];
    assert_eq!(rank(&start), Activity::LoaderStart);
}

#[test]
fn loading_in_process() {
    let stack = [
        "/opt/venv/lib/python3.11/site-packages/PIL/ImageFile.py:390 ImageFile.load",
        "/home/me/data.py:12 Set.__getitem__",
        "T/utils/data/_utils/fetch.py:54 _MapDatasetFetcher.fetch",
        "T/utils/data/dataloader.py:789 _SingleProcessDataLoaderIter._next_data",
        "T/utils/data/dataloader.py:720 _BaseDataLoaderIter.__next__",
        "/home/me/train.py:30 main",
    ];
    assert_eq!(rank(&stack), Activity::Decode);
    let stacks = process_stacks(&window(10, &[(&stack, 7)]), ProcessRole::Rank, (None, None));
    assert_eq!(
        (stacks.main.samples_where(Activity::is_loading), stacks.places[0].function.as_ref()),
        (7, "Set.__getitem__")
    );
    // Without a loader, in a function that is named for nothing; but not what a metric or the model decodes.
    assert_eq!(rank(&[stack[0], "/home/me/train.py:30 main"]), Activity::Decode);
    assert_eq!(
        rank(&[stack[0], "T/utils/tensorboard/writer.py:9 add_image", "/home/me/train.py:30 main"]),
        Activity::Report
    );
}

#[test]
fn the_sampler_of_the_loader_is_work_of_the_loop() {
    let stack = [
        "/home/me/data.py:48 Buckets._pick",
        "/home/me/data.py:63 Buckets.__iter__",
        "T/utils/data/dataloader.py:715 _BaseDataLoaderIter._next_index",
        "T/utils/data/dataloader.py:1541 _MultiProcessingDataLoaderIter._try_put_index",
        "T/utils/data/dataloader.py:725 _BaseDataLoaderIter.__next__",
        "/home/me/train.py:30 main",
    ];
    assert_eq!(rank(&stack), Activity::Python, "not taking a batch over, nor waiting for one");
    let stacks = process_stacks(&window(10, &[(&stack, 7)]), ProcessRole::Rank, (None, None));
    assert_eq!(stacks.places[0].function.as_ref(), "Buckets._pick");
}

#[test]
fn stored_arrays_are_read_or_saved() {
    let helper = "T/serialization.py:595 _is_meta_location";
    let load = [helper, "T/serialization.py:2252 _load", "T/serialization.py:1606 load", "/home/me/train.py:30 main"];
    assert_eq!(rank(&load), Activity::Load, "a loop that does it reads its data");
    let save = [helper, "T/serialization.py:900 _save", "T/serialization.py:820 save", "/home/me/train.py:30 main"];
    assert_eq!(rank(&save), Activity::Checkpoint);
    // Other things are read for other reasons.
    assert_eq!(rank(&["P/http/client.py:9 read", "/home/me/train.py:30 main"]), Activity::Python);
}

#[test]
fn steps_of_the_loop() {
    let closure = [
        "/home/me/model.py:9 Net.forward",
        "T/nn/modules/module.py:1700 Module._call_impl",
        "/home/me/train.py:12 closure",
        "T/optim/optimizer.py:500 Optimizer.wrapper",
        "/home/me/train.py:30 main",
    ];
    assert_eq!(rank(&closure), Activity::Forward, "the innermost decides");
    assert_eq!(rank(&closure[3..]), Activity::Optimizer);
    let backward =
        ["T/autograd/graph.py:820 _engine_run_backward", "T/_tensor.py:640 Tensor.backward", "/home/me/t.py:1 f"];
    assert_eq!(rank(&backward), Activity::Backward);
    assert_eq!(rank(&["T/distributed/distributed_c10d.py:90 all_reduce", "/home/me/t.py:1 f"]), Activity::Collective);
    assert_eq!(rank(&["T/serialization.py:900 save", "/home/me/t.py:1 f"]), Activity::Checkpoint);
    // A class that saves, but for its making.
    let of_class = |method: &str| rank(&["P/shutil.py:260 copyfile", &format!("/home/me/t.py:9 {method}")]);
    assert_eq!(of_class("Saver.__call__"), Activity::Checkpoint);
    assert_eq!((of_class("Saver.__init__"), of_class("Metric.__call__")), (Activity::Python, Activity::Python));
    assert_eq!(rank(&["T/cuda/__init__.py:1000 synchronize", "/home/me/t.py:1 f"]), Activity::Sync);

    assert_eq!(rank(&["P/logging/__init__.py:1 Logger.info", "/home/me/t.py:1 f"]), Activity::Report);
    assert_eq!(rank(&["/home/me/t.py:1 f"]), Activity::Python);
    assert_eq!(rank(&["<frozen importlib._bootstrap>:1 _find_and_load", "/home/me/t.py:1 f"]), Activity::Import);
    assert_eq!(rank(&["P/threading.py:331 wait", "P/queue.py:180 get", "/home/me/t.py:1 f"]), Activity::QueueWait);
}

#[test]
fn a_function_that_holds_the_step_is_the_loop_whatever_it_is_called() {
    let of = |stacks: &[(&[&str], u32)]| process_stacks(&window(10, stacks), ProcessRole::Rank, (None, None)).main;
    for name in ["save_best_model", "train_and_checkpoint", "get_batches_and_train"] {
        let own = format!("/home/me/t.py:9 {name}");
        let (module, helper) = ("/home/me/t.py:20 <module>", "/home/me/t.py:5 mix");
        let sync = ["T/cuda/__init__.py:1000 synchronize", &own, module];
        let backward = ["T/_tensor.py:630 Tensor.backward", &own, module];
        for step in [sync, backward] {
            let main = of(&[(&step, 3), (&[helper, &own, module], 5), (&[&own, module], 2)]);
            assert_eq!((main.get(Activity::Python), main.total()), (7, 10), "{name}");
        }
        // Called from a loop that steps itself, it is what its name says.
        let (train, leaf) = ("/home/me/t.py:12 train", [helper, &own, "/home/me/t.py:12 train", module]);
        let main = of(&[(&["T/_tensor.py:630 Tensor.backward", train, module], 3), (&leaf, 7)]);
        assert_eq!(main.get(Activity::Python), 0, "{name}");
        // One that saves may wait for the GPU first.
        let main = of(&[(&["T/cuda/__init__.py:1000 synchronize", &own, train, module], 3), (&leaf, 7)]);
        assert_eq!(main.get(Activity::Python), 0, "{name}");
    }
}

#[test]
fn waits_for_somebody() {
    let mine = "/home/me/t.py:9 main";
    let future = ["P/threading.py:331 Condition.wait", "P/concurrent/futures/_base.py:451 Future.result", mine];
    assert_eq!(rank(&future), Activity::OtherWait);
    let pipe = ["P/multiprocessing/connection.py:384 Connection._recv", mine];
    assert_eq!(rank(&pipe), Activity::OtherWait);
    assert_eq!(
        rank(&["P/selectors.py:468 select", "P/asyncio/base_events.py:1894 _run_once", mine]),
        Activity::OtherWait
    );
    // What is known further out says what the wait belongs to.
    let logs = ["P/threading.py:331 wait", "S/site-packages/wandb/sdk/run.py:5 log", mine];
    assert_eq!(rank(&logs), Activity::Report);
    let named = ["P/threading.py:331 wait", "P/concurrent/futures/_base.py:451 result", "/home/me/t.py:5 next_batch"];
    assert_eq!(rank(&named), Activity::QueueWait, "no loading: it waits");
}

#[test]
fn a_line_that_sleeps_is_a_wait() {
    let stacks_of = |text: &str, function: &str| {
        let mut window = window(10, &[(&[&format!("/home/me/t.py:9 {function}")], 20)]);
        window.frames.iter_mut().for_each(|frame| frame.text = Some(text.into()));
        let stacks = process_stacks(&window, ProcessRole::Rank, (None, None));
        Activity::ALL.into_iter().find(|activity| stacks.main.get(*activity) > 0)
    };
    for (text, function, activity) in [
        ("while not job.ready(): time.sleep(0.005)", "main", Activity::OtherWait),
        ("sleep(delay)", "main", Activity::OtherWait),
        ("time.sleep(.001)", "next_batch", Activity::QueueWait),
        ("torch.cuda._sleep(1000)", "main", Activity::Python),
        ("oversleep(1)", "main", Activity::Python),
    ] {
        assert_eq!(stacks_of(text, function), Some(activity), "{text}");
    }
}

#[test]
fn a_line_that_decodes_in_native_code_makes_batches() {
    let loads = |text: &str| {
        let mut window = window(10, &[(&["/home/me/t.py:9 columns", "/home/me/t.py:2 main"], 20)]);
        window.frames.iter_mut().for_each(|frame| frame.text = Some(text.into()));
        process_stacks(&window, ProcessRole::Rank, (None, None)).main.samples_where(Activity::is_loading) > 0
    };
    assert!(loads("image = cv2.imdecode(raw, cv2.IMREAD_COLOR)"));
    assert!(loads("torchvision.io.decode_jpeg(data)"));
    assert!(!loads("words = tokenizer.decode(ids)") && !loads("name = raw.decode()"));
}

#[test]
fn loaders_of_the_users_own() {
    let count = |frames: &[&str]| {
        let stacks = process_stacks(&window(10, &[(frames, 1)]), ProcessRole::Rank, (None, None));
        (
            stacks.main.samples_where(Activity::is_loading),
            Activity::ALL.into_iter().find(|activity| stacks.main.get(*activity) == 1).unwrap(),
        )
    };
    assert_eq!(count(&["/home/me/t.py:5 get_batch", "/home/me/t.py:1 main"]), (1, Activity::Transform));
    assert_eq!(
        count(&["/home/me/t.py:5 decode", "/home/me/t.py:9 Stream.__next__", "/home/me/t.py:1 main"]),
        (1, Activity::Decode)
    );
    assert_eq!(
        count(&["/home/me/t.py:5 read_file", "/home/me/t.py:9 _load_samples", "/home/me/t.py:1 main"]),
        (1, Activity::Load)
    );
    assert_eq!(count(&["/home/me/t.py:5 warp", "/home/me/t.py:9 to_batch", "/home/me/t.py:1 main"]).0, 1);
    assert_eq!(
        count(&["<ipython-input-2>:5 patch", "<ipython-input-2>:9 batches", "<ipython-input-3>:1 <module>"]).0,
        1
    );
    // A library that hands out samples calls what makes them; what it computes with the model is the model's.
    let map = "/v/site-packages/datasets/iterable_dataset.py:1310 _iter";
    assert_eq!(count(&["/home/me/t.py:5 word", map, "/home/me/t.py:1 main"]), (1, Activity::Transform));
    assert_eq!(count(&[map, "/home/me/t.py:1 main"]).0, 1);
    assert_eq!(count(&["T/nn/modules/module.py:1 _call_impl", map, "/home/me/t.py:1 main"]), (0, Activity::Forward));
    assert_eq!(count(&["/v/site-packages/datasets/arrow_dataset.py:1 map", "/home/me/t.py:1 main"]).0, 0);
    assert_eq!(count(&["/home/me/t.py:5 train_batch", "/home/me/t.py:1 main"]), (0, Activity::Python));
    assert_eq!(count(&["/home/me/t.py:5 prepare_batch", "/home/me/t.py:1 main"]), (0, Activity::Python));
    assert_eq!(
        count(&["T/nn/modules/module.py:1 _call_impl", "/home/me/t.py:5 get_batch_loss"]),
        (0, Activity::Forward)
    );
}

const FETCH: [&str; 3] = [
    "T/utils/data/_utils/fetch.py:54 _MapDatasetFetcher.fetch",
    "T/utils/data/_utils/worker.py:360 _worker_loop",
    "P/multiprocessing/process.py:108 BaseProcess.run",
];

fn in_fetch(frames: &[&'static str]) -> Vec<&'static str> {
    [frames, &FETCH[..]].concat()
}

#[test]
fn stages_of_a_worker() {
    let item = "/home/me/data.py:20 Set.__getitem__";
    assert_eq!(worker(&in_fetch(&[item])), Activity::Transform);
    assert_eq!(
        worker(&in_fetch(&["/home/me/data.py:5 dilate", item, "T/utils/data/_utils/fetch.py:54 <listcomp>"])),
        Activity::Transform
    );
    assert_eq!(worker(&in_fetch(&["/home/me/data.py:5 read_bytes", item])), Activity::Load);
    assert_eq!(worker(&in_fetch(&["/home/me/data.py:5 decode_sample", item])), Activity::Decode);
    assert_eq!(worker(&in_fetch(&["P/tarfile.py:5 TarFile.extractfile", item])), Activity::Load);
    assert_eq!(worker(&in_fetch(&["T/utils/data/_utils/collate.py:150 collate"])), Activity::Collate);
    assert_eq!(worker(&in_fetch(&["/home/me/data.py:50 mixup"])), Activity::Collate, "called by fetch itself");
    assert_eq!(worker(&in_fetch(&["/home/me/data.py:60 Padding.__call__"])), Activity::Collate);
    assert_eq!(
        worker(&["P/selectors.py:1 select", "P/multiprocessing/queues.py:113 Queue.get", FETCH[1]]),
        Activity::Waiting
    );
    assert_eq!(worker(&[FETCH[1], FETCH[2]]), Activity::Python);
}

#[test]
fn functions_further_out_do_not_name_the_stage() {
    let stack =
        ["/home/me/data.py:5 dilate", "/home/me/data.py:9 load_sample", "/home/me/data.py:20 Set.__getitem__"];
    assert_eq!(worker(&in_fetch(&stack)), Activity::Transform);
}

#[test]
fn the_text_of_fetch_tells_data_set_from_collate() {
    let mut window = window(10, &[(&in_fetch(&["/home/me/data.py:70 samples"]), 3)]);
    let fetch = window.frames.iter().position(|frame| frame.file.ends_with("fetch.py")).unwrap();
    window.frames[fetch].text = Some("data.append(next(self.dataset_iter))".into());
    let stacks = process_stacks(&window, ProcessRole::Worker, (None, None));
    assert_eq!(stacks.main.get(Activity::Transform), 3, "a generator of any name");
    window.frames[fetch].text = Some("return self.collate_fn(data)".into());
    assert_eq!(process_stacks(&window, ProcessRole::Worker, (None, None)).main.get(Activity::Collate), 3);
}

#[test]
fn reading_lines_of_the_users_own() {
    let mut window = window(10, &[(&in_fetch(&["/home/me/data.py:20 Set.__getitem__"]), 1)]);
    for (text, activity) in [
        ("x = np.fromfile(path, np.uint8)", Activity::Load),
        ("img = cv2.imdecode(x, 1)", Activity::Decode),
        ("x = x * 2 + 1", Activity::Transform),
    ] {
        window.frames[0].text = Some(text.into());
        assert_eq!(process_stacks(&window, ProcessRole::Worker, (None, None)).main.get(activity), 1, "{text}");
    }
}

#[test]
fn validation_by_framework_decorator_and_name() {
    let stacks = |frames: &[&str]| process_stacks(&window(10, &[(frames, 1)]), ProcessRole::Rank, (None, None));
    let count = |frames: &[&str]| stacks(frames).validation;
    let under = stacks(&["/home/me/t.py:5 check", "T/utils/_contextlib.py:120 no_grad", "/home/me/t.py:1 main"]);
    assert_eq!((under.validation, under.under_no_grad, under.by_name), (1, 1, 0));
    let named = stacks(&["/home/me/t.py:5 evaluate", "/home/me/t.py:1 main"]);
    assert_eq!((named.validation, named.under_no_grad, named.by_name), (1, 0, 1));
    let both = stacks(&["/home/me/t.py:5 evaluate", "T/utils/_contextlib.py:120 no_grad", "/home/me/t.py:1 main"]);
    assert_eq!((both.validation, both.under_no_grad, both.by_name), (1, 0, 0));
    assert_eq!(count(&["/home/me/t.py:5 train_and_evaluate", "/home/me/t.py:1 main"]), 0);
    assert_eq!(count(&["T/optim/sgd.py:5 step", "T/utils/_contextlib.py:120 no_grad", "/home/me/t.py:1 main"]), 0);
}

#[test]
fn what_a_loop_calls_at_each_step_is_no_validation() {
    let wrapper = "T/utils/_contextlib.py:120 decorate_context";
    let metric = window(10, &[(&["/home/me/t.py:5 evaluate_accuracy", wrapper, "/home/me/t.py:1 main"], 9)]);
    let of = |function: &str| {
        let stepping =
            FrameLocals { function: function.into(), file: "/home/me/t.py".into(), ..FrameLocals::default() };
        process_stacks(&metric, ProcessRole::Rank, (None, Some(&stepping))).validation
    };
    assert_eq!(of("main"), 0, "main counts the steps");
    assert_eq!(of("evaluate_accuracy"), 9, "it counts its own batches");
    assert_eq!(of("train"), 9, "which is not there");
}

#[test]
fn batches_that_are_taken_outside_of_a_validation_are_told() {
    let next = "T/utils/data/dataloader.py:720 _BaseDataLoaderIter.__next__";
    let fed = |frames: &[&str]| process_stacks(&window(10, &[(frames, 4)]), ProcessRole::Rank, (None, None)).fed;
    assert_eq!(fed(&[next, "/home/me/t.py:9 main"]), 4);
    assert_eq!(fed(&[next, "/home/me/t.py:5 validate", "/home/me/t.py:9 main"]), 0);
    assert_eq!(fed(&["/home/me/t.py:9 main"]), 0);
}

#[test]
fn the_sending_thread_is_counted_apart() {
    let mut window = window(10, &[(&in_fetch(&["/home/me/data.py:20 Set.__getitem__"]), 10)]);
    let from = window.frames.len() as u32;
    window.frames.extend([
        frame("P/threading.py:331 Condition.wait"),
        frame("P/multiprocessing/queues.py:231 Queue._feed"),
        frame("P/multiprocessing/reduction.py:51 dumps"),
    ]);
    window.threads.push(ThreadStacks {
        name: "QueueFeederThread".into(),
        tid: Some(11),
        stacks: vec![
            StackCount { frames: vec![from, from + 1], samples: 6 },
            StackCount { frames: vec![from + 2, from + 1], samples: 4 },
        ],
    });
    assert_eq!(process_stacks(&window, ProcessRole::Worker, (None, None)).queue_thread, (10, 4));
}

#[test]
fn only_processes_of_the_job_with_a_role_are_kept() {
    let roles = [(10, ProcessRole::Rank), (20, ProcessRole::Worker), (30, ProcessRole::Other)];
    let processes = roles.map(|(pid, role)| ProcessSample { role, ..process(pid) }).to_vec();
    let job = job(1000, processes);
    let windows = [10, 20, 30, 40].map(|pid| window(pid, &[(&["/home/me/t.py:1 f"], 1)])).to_vec();
    let folded = fold(Some(&StacksSample { windows, ..StacksSample::default() }), &job, |_| (None, None));
    assert_eq!(folded.iter().map(|stacks| stacks.id.pid).collect::<Vec<_>>(), [10, 20]);
}

#[test]
fn indices_out_of_range_are_left_out() {
    let mut window = window(10, &[(&["/home/me/t.py:1 f"], 1)]);
    window.threads[0].stacks.push(StackCount { frames: vec![99, u32::MAX], samples: 5 });
    let stacks = process_stacks(&window, ProcessRole::Rank, (None, None));
    assert_eq!(stacks.main.total(), 1);
    assert_eq!(stacks.places.len(), 1);
}

fn any_name() -> impl Strategy<Value = Arc<str>> {
    let known =
        ["torch/utils/data/_utils/fetch.py", "torch/utils/data/dataloader.py", "/queue.py", "/home/me/t.py", ""];
    prop_oneof!["\\PC{0,20}", "(/|[a-z_.]){0,30}", prop::sample::select(known.to_vec()).prop_map(str::to_owned)]
        .prop_map(Into::into)
}

fn any_window() -> impl Strategy<Value = StackWindow> {
    let frame = (any_name(), any_name(), any::<u32>(), prop::option::of(any_name()))
        .prop_map(|(function, file, line, text)| StackFrame { function, file, line, text });
    let stack = (prop::collection::vec(0_u32..14, 0..9), any::<u32>())
        .prop_map(|(frames, samples)| StackCount { frames, samples });
    let name = prop_oneof![Just("MainThread".to_owned()), "\\PC{0,9}"];
    let thread = (name, prop::option::of(0_u32..30), prop::collection::vec(stack, 0..6))
        .prop_map(|(name, tid, stacks)| ThreadStacks { name: name.into(), tid, stacks });
    (prop::collection::vec(frame, 0..12), prop::collection::vec(thread, 0..4))
        .prop_map(|(frames, threads)| StackWindow { process: id(10), frames, threads })
}

proptest! {
    /// Whatever the sampler says, counts stay bounded by what it counted.
    #[test]
    fn any_window_is_read(window in any_window()) {
        for role in [ProcessRole::Rank, ProcessRole::Worker] {
            let stacks = process_stacks(&window, role, (None, None));
            let most = main_thread(&window).map_or(0, |thread| thread.stacks.iter().fold(0, |sum: u32, stack| sum.saturating_add(stack.samples)));
            prop_assert!(stacks.main.total() <= most.into() || most == u32::MAX);
            prop_assert!(stacks.places.len() <= PLACES);
            prop_assert!(stacks.queue_thread.1 <= stacks.queue_thread.0);
            for place in &stacks.places {
                prop_assert!(place.leaf <= place.samples && place.blocked <= place.samples);
            }
        }
    }
}

#[test]
fn a_worker_that_waits_for_threads_of_its_own_does_what_they_do() {
    let waits = [
        "P/threading.py:331 Condition.wait",
        "P/concurrent/futures/_base.py:450 Future.result",
        "/home/me/data.py:12 Views.__getitem__",
        "T/utils/data/_utils/fetch.py:51 _MapDatasetFetcher.fetch",
        "T/utils/data/_utils/worker.py:350 _worker_loop",
    ];
    let asks = ["P/multiprocessing/connection.py:947 wait", "P/multiprocessing/queues.py:113 Queue.get"];
    let of = |threads: &[&[(&[&str], u32)]]| {
        let mut all = window(20, &[(&waits, 80), (&asks, 20)]);
        for (number, stacks) in threads.iter().enumerate() {
            let other = window(20, stacks);
            let from = all.frames.len() as u32;
            all.frames.extend(other.frames);
            let stacks = other.threads[0].stacks.iter().map(|stack| StackCount {
                frames: stack.frames.iter().map(|at| at + from).collect(),
                samples: stack.samples,
            });
            let name = format!("ThreadPoolExecutor-{number}_0").into();
            all.threads.push(ThreadStacks { name, tid: None, stacks: stacks.collect() });
        }
        process_stacks(&all, ProcessRole::Worker, (None, None))
    };
    let pool = "P/concurrent/futures/thread.py:58 _WorkItem.run";
    let decodes =
        ["/opt/venv/lib/python3.11/site-packages/PIL/ImageFile.py:300 load", "/home/me/data.py:7 view", pool];
    let crops = ["/home/me/data.py:9 view", pool];
    let idle = ["P/concurrent/futures/thread.py:81 _worker"];
    let feeds = ["P/multiprocessing/queues.py:240 Queue._feed", "/home/me/data.py:30 reduce"];
    let stacks = of(&[&[(&decodes, 30), (&crops, 10)], &[(&idle, 60)], &[(&feeds, 50)]]);
    let count = |activity| stacks.main.get(activity);
    let counts = (count(Activity::Decode), count(Activity::Transform), count(Activity::Waiting));
    assert_eq!(counts, (60, 20, 20));
    let first = &stacks.places[0];
    assert_eq!((&*first.function, first.line, first.samples, first.blocked), ("view", 7, 60, 0));
    // Nobody of the process does anything of the kind: the wait is where it was called.
    let alone = of(&[&[(&idle, 60)]]);
    assert_eq!((alone.main.get(Activity::Transform), alone.main.get(Activity::Waiting)), (80, 20));
    assert_eq!((alone.places[0].line, alone.places[0].blocked), (12, 80));
}
