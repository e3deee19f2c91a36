//! A profile that the key asks the job for: on its way, given up, or here. Its page opens with the sample that brings it.

use std::borrow::Cow;

use super::App;
use crate::message::Effect;
use crate::pages::Page;
use crate::pages::keys::{Action, key_of};
use trainmon_attach::jobs::JobKey;
use trainmon_base::text::format::step_time;
use trainmon_diagnosis::pipeline::Tick;
use trainmon_profiles::asked::ProfileStage;

/// How far a profile has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Profiling {
    /// The job is asked for it, which is told as it goes.
    Asked(Option<ProfileStage>),
    /// It was given up, which takes a moment.
    GivenUp,
    /// It comes with the next sample.
    Taken,
    /// It is here, and the footer says so in these words until the next key.
    Here(String),
}

impl App {
    /// Asks the job for a profile, or gives up the one that it is asked for.
    pub(super) fn take_profile(&mut self) -> Vec<Effect> {
        let job = self.job();
        match self.profiling {
            Some((_, Profiling::Asked(_))) => return self.give_up_profile(),
            Some((_, Profiling::GivenUp | Profiling::Taken)) => return Vec::new(),
            _ if job.replay.is_some() => {
                return self.say("this is a recording: a profile needs a running job");
            }
            _ if job.ended.is_some() => return self.say("the job has ended: a profile needs a running job"),
            _ if !self.options.may_profile => {
                return self.say("a profile slows the job down for a moment: start trainmon without --readonly");
            }
            _ => {}
        }
        let (key, pid) = (job.key, job.target.pid);
        let processes = job.frame().map_or(vec![pid], |frame| frame.loop_pids(pid));
        self.profiling = Some((key, Profiling::Asked(None)));
        vec![Effect::Profile(key, processes), Effect::Redraw]
    }

    /// Whether the job is asked for a profile, which can be given up.
    pub(super) fn is_asking(&self) -> bool {
        matches!(self.profiling, Some((_, Profiling::Asked(_))))
    }

    pub(super) fn give_up_profile(&mut self) -> Vec<Effect> {
        let Some((_, profiling)) = &mut self.profiling else { return Vec::new() };
        *profiling = Profiling::GivenUp;
        vec![Effect::GiveUpProfile, Effect::Redraw]
    }

    /// What happens to the profile, for the footer.
    pub(super) fn profile_line(&self) -> Option<Cow<'_, str>> {
        Some(match &self.profiling.as_ref()?.1 {
            Profiling::Asked(None) => "profile: asking the job · Esc gives up".into(),
            Profiling::Asked(Some(stage)) => format!("profile: {stage} · Esc gives up").into(),
            Profiling::GivenUp => "giving up the profile".into(),
            Profiling::Taken => "the profile is taken".into(),
            Profiling::Here(line) => line.into(),
        })
    }

    /// The profile that the job is asked for has come so far.
    pub(super) fn profile_goes_on(&mut self, key: JobKey, stage: ProfileStage) -> Vec<Effect> {
        match &mut self.profiling {
            Some((job, Profiling::Asked(reached))) if *job == key => *reached = Some(stage),
            _ => return Vec::new(),
        }
        vec![Effect::Redraw]
    }

    /// After a key nothing more needs to be said of a profile that is here; says whether that was said.
    pub(super) fn has_said_profile(&mut self) -> bool {
        self.profiling.take_if(|(_, profiling)| matches!(profiling, Profiling::Here(_))).is_some()
    }

    /// The profile is taken, or why not, in a line.
    pub(super) fn profile_taken(&mut self, key: JobKey, taken: Result<(), String>) -> Vec<Effect> {
        match taken {
            Ok(()) => self.profiling = Some((key, Profiling::Taken)),
            Err(line) => {
                self.profiling = None;
                self.say(&line);
            }
        }
        vec![Effect::Redraw]
    }

    /// Opens the page of a profile that came with this tick, unless something else is looked at; says whether it was awaited.
    pub(super) fn open_profile(&mut self, key: JobKey, tick: &Tick) -> bool {
        if self.profiling != Some((key, Profiling::Taken)) {
            return false;
        }
        let steps = tick.verdict.steps.p50_ms.zip(tick.verdict.profile.as_ref().and_then(|account| account.step_ms));
        let cost = steps
            .map(|(usual, within)| format!(": {} a step in it, {} without", step_time(within), step_time(usual)));
        let is_free = self.popup.is_none() && self.list.is_none() && self.job().is_live();
        let line = if is_free && self.job().key == key {
            self.go(Page::Profile);
            cost.unwrap_or_default()
        } else {
            format!(": {} shows it", key_of(Action::Go(Page::Profile)))
        };
        self.profiling = Some((key, Profiling::Here(format!("the profile is taken{line}"))));
        true
    }
}
