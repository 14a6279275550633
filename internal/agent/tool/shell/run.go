package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"symbio/agent/tool"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// Config sets up the tools. Box and Policy are required: without them nothing runs.
type Config struct {
	// Box returns the sandbox. It is called for each call of a tool. nil means that nothing runs.
	Box func(ctx context.Context) (*sandbox.Box, error)
	// Policy is what commands may do. The zero Policy is the strictest.
	Policy sandbox.Policy
	// Look returns the sandbox of commands that only look (permission.BoxLook). Default: there is none.
	Look func(ctx context.Context) (*sandbox.Box, error)
	// Git is what holds Git where Box runs commands without a sandbox, since git runs programs that a
	// repository's configuration names. Default: each call of Git is a question then.
	Git GitSandbox
	// Bash is the program that runs scripts. Default: "/bin/bash". It must be bash, because the
	// checks parse bash.
	Bash string
	// SkillDirs returns the directories of an agent's active skills. Commands can read them
	// wherever they are, and cannot write there. If there is exactly one, scripts find it in the
	// variables SKILL_DIR and CLAUDE_SKILL_DIR; with several it is unknown to which skill a script
	// belongs, and they are not set. Default: none.
	SkillDirs func(agent string) []string
	// Env are variables that every command gets, as NAME=VALUE. Default: none.
	Env []string
}

// GitSandbox is a sandbox for Git and the access that it gives Git.
type GitSandbox struct {
	Box    func(ctx context.Context) (*sandbox.Box, error)
	Policy sandbox.Policy
}

// The limits of a command. defaultTimeout and maxTimeout come from the Bash tool of other agents.
const (
	defaultTimeout = 120 * time.Second
	maxTimeout     = 600 * time.Second
	// maxOutput is how much of a command's output is kept, in bytes. It is below what a Set shows
	// by default, so that the tool itself decides what to cut.
	maxOutput = 30 << 10
)

// Tools returns Bash and Git.
func Tools(cfg Config) []tool.Tool {
	cfg.Bash = cmp.Or(cfg.Bash, "/bin/bash")
	git := cfg
	if held := cfg.Git; held.Box != nil {
		git.Policy, git.Box = held.Policy, func(ctx context.Context) (*sandbox.Box, error) {
			if box, err := held.Box(ctx); err != nil || box.Status().Level != sandbox.None {
				return box, err
			}
			return cfg.Box(ctx) // this machine has no sandbox
		}
	}
	return []tool.Tool{(&runner{cfg}).bash(), (&runner{git}).git()}
}

// runner runs the commands of both tools. It has no state, so calls may run in parallel.
type runner struct{ cfg Config }

// timeLimit returns the timeout for an argument in seconds: 0 means defaultTimeout, more than
// maxTimeout means maxTimeout.
func timeLimit(seconds int) (time.Duration, error) {
	if seconds < 0 {
		return 0, errors.New("the timeout is negative")
	}
	if seconds == 0 {
		return defaultTimeout, nil
	}
	return min(time.Duration(seconds)*time.Second, maxTimeout), nil
}

// checkSandbox implements Invocation.Holds: it returns a *sandbox.Refusal if the sandbox cannot
// enforce the policy. Other errors are left to run, which reports them.
func (r *runner) checkSandbox(ctx context.Context) error {
	if r.cfg.Box == nil {
		return nil // run says so
	}
	box, policy, err := r.held(ctx)
	if err != nil {
		return nil
	}
	return box.Check(policy)
}

// hasBox implements Invocation.HasBox.
func (r *runner) hasBox(ctx context.Context, b permission.Box) bool {
	of := r.cfg.Box
	if b == permission.BoxLook {
		of = r.cfg.Look
	}
	if of == nil {
		return false
	}
	box, err := of(ctx)
	return err == nil && (b == permission.BoxLook && box.Looks() == nil || b == permission.BoxWork && box.Works(tool.Constrain(ctx, r.cfg.Policy)))
}

// held returns what holds the call of ctx, and what that lets it do, by the box of its verdict.
func (r *runner) held(ctx context.Context) (*sandbox.Box, sandbox.Policy, error) {
	of, policy := r.cfg.Box, r.cfg.Policy
	policy.Env = slices.Concat(policy.Env, sandbox.BuildEnv()) // what is built in one box is what is built in the other
	switch tool.BoxOf(ctx) {
	case permission.BoxLook:
		look, err := sandbox.Look(slices.Concat([]string{tool.Dir(ctx)}, r.skillDirs(ctx), tool.Plan(ctx).Reads))
		if err != nil {
			return nil, look, err
		}
		look.Env = policy.Env
		of, policy = r.cfg.Look, look
	case permission.BoxNetwork:
		policy.Network = sandbox.NetworkFull
	}
	box, err := of(ctx)
	return box, tool.Constrain(ctx, policy), err
}

// sandboxKeeps implements Invocation.Keeps: it reports whether the sandbox keeps a command away
// from the denied files.
func (r *runner) sandboxKeeps(ctx context.Context, d *permission.FileDenials) bool {
	if r.cfg.Box == nil {
		return false
	}
	box, err := r.cfg.Box(ctx)
	return err == nil && len(box.Gaps(tool.WithoutDenied(tool.Constrain(ctx, r.cfg.Policy), d).Files)) == 0
}

// accepted reports whether a person has accepted that exactly the protection is missing that is
// missing now.
func accepted(ctx context.Context, box *sandbox.Box, p sandbox.Policy) bool {
	var lacking *sandbox.Refusal
	return errors.As(box.Check(p), &lacking) && tool.Accepted(ctx, lacking)
}

// run runs a command in the sandbox and returns its output as a result. ctx and limit end it with
// all its processes.
func (r *runner) run(ctx context.Context, argv, env []string, limit time.Duration) tool.Result {
	if r.cfg.Box == nil {
		return failed("no sandbox is available, and commands run only in a sandbox")
	}
	dirs := r.skillDirs(ctx)
	box, policy, err := r.held(ctx)
	if err != nil {
		return failed("the sandbox: " + err.Error())
	}
	own := r.cfg.Env
	if policy.Files.Home {
		own = slices.DeleteFunc(slices.Clone(own), func(v string) bool { return strings.HasPrefix(v, "HOME=") }) // the box has its own
	}
	spec := sandbox.Spec{Argv: argv, Dir: tool.Dir(ctx), Env: slices.Concat(own, env, skillVariables(dirs))}
	result := runIn(ctx, box, showing(policy, dirs), spec, limit)
	if tool.BoxOf(ctx) == permission.BoxLook && !strings.HasPrefix(result.Text, notRun) {
		result.Text += lookNote
	}
	return result
}

// lookNote tells the model what held a command that only looks.
const lookNote = "[It ran in the look box: it changes no file and has no network. With access \"write\", or \"network\", it may, if that is allowed.]\n"

// runIn runs a command in the sandbox with a policy, which gets the names of its variables.
func runIn(ctx context.Context, box *sandbox.Box, policy sandbox.Policy, spec sandbox.Spec, limit time.Duration) tool.Result {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %v", limit))
	defer cancel()
	policy.Env = slices.Clone(policy.Env)
	for _, v := range spec.Env {
		name, _, _ := strings.Cut(v, "=")
		policy.Env = append(policy.Env, name)
	}
	spec.Keep, spec.Together, spec.Accept = maxOutput, true, accepted(ctx, box, policy)
	out, err := box.Run(ctx, policy, spec)
	var refused *sandbox.Refusal
	switch {
	case errors.As(err, &refused):
		return failed(refused.Error())
	case errors.Is(err, sandbox.ErrFlood):
		return shown(out, "it printed too much and was ended")
	case err != nil && errors.Is(context.Cause(ctx), context.Canceled):
		return shown(out, "it was ended, because the task was stopped")
	case err != nil && ctx.Err() != nil:
		return shown(out, "it was ended: "+context.Cause(ctx).Error())
	case err != nil:
		return failed(err.Error())
	case out.Signal != "":
		return shown(out, "it was ended by the signal "+out.Signal)
	case out.Code != 0:
		return shown(out, fmt.Sprintf("it ended with status %d", out.Code))
	}
	return shown(out, "")
}

// shown returns a result with the output of a command. trouble is how the command failed; "" if it
// succeeded.
func shown(out sandbox.Result, trouble string) tool.Result {
	text := tool.Printed([]byte(out.Stdout.String()))
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	text = cmp.Or(text, "[It printed nothing.]\n")
	for _, line := range out.Disarmed {
		text += "[Set aside, so that git outside of the sandbox does not execute what a command wrote: " + line + ".]\n"
	}
	if trouble != "" {
		text += "[" + trouble + ".]\n"
	}
	return tool.Result{Text: text, IsError: trouble != ""}
}

// notRun begins the result of a command that did not start.
const notRun = "The command did not run: "

// failed returns the result of a command that did not start.
func failed(why string) tool.Result {
	return tool.Result{Text: notRun + strings.TrimSuffix(why, ".") + ".", IsError: true}
}
