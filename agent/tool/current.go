package tool

import (
	"context"
	"maps"
	"reflect"

	"symbio/community"
	"symbio/security/permission"
	"symbio/security/permission/endpoint"
	"symbio/security/permission/file"
)

// current is the call that a tool's context belongs to.
type current struct {
	set *Set
	job *job
}

type currentKey struct{}

// noCall is the call outside a Set.
var noCall = &current{set: &Set{}, job: &job{}}

func currentOf(ctx context.Context) *current {
	if c, ok := ctx.Value(currentKey{}).(*current); ok {
		return c
	}
	return noCall
}

// Dir is the working directory that the guard took a call's relative paths to be relative to; a tool
// has to do the same. "" outside a Set.
func Dir(ctx context.Context) string { return currentOf(ctx).set.cfg.Dir }

// ReadDirs are the directories beside the workspace in which a tool may read for this call's agent, and do
// nothing else. What it may read there the guard has said.
func ReadDirs(ctx context.Context) []string {
	if dirs := currentOf(ctx).set.cfg.ReadDirs; dirs != nil {
		return dirs()
	}
	return nil
}

// AgentOf is whose call it is, SetConfig.Agent: a tool that several agents share may ask. "" outside a Set.
func AgentOf(ctx context.Context) string { return currentOf(ctx).set.cfg.Agent }

// Except is what a tool that walks directories has to leave out. nil is nothing.
func Except(ctx context.Context) *file.Except { return currentOf(ctx).job.verdict.Except }

// Reach is where a tool that makes requests may connect to; it has to ask for each connection. nil is
// the web ports of public addresses.
func Reach(ctx context.Context) *endpoint.AllowList { return currentOf(ctx).job.verdict.Dial }

// Plan is what a tool that runs commands has to run: what was judged. nil outside a Set.
func Plan(ctx context.Context) *permission.Plan { return currentOf(ctx).job.verdict.Plan }

// MayFollowLink says whether the call that ctx was given to may also be about another file than the one that it names: the one
// that a link leads to, which may have been put there since the call was judged. It may if the rules say no less of it
// than they said of the call. Outside a Set it may.
func MayFollowLink(ctx context.Context, path string) bool {
	c := currentOf(ctx)
	if c == noCall {
		return true
	}
	call := c.set.callOf(ctx, c.job)
	call.Args = maps.Clone(call.Args)
	if _, ok := call.Args["file_path"]; ok {
		call.Args["file_path"] = path
	} else {
		call.Args["path"] = path // of a tool that walks directories
	}
	return c.set.cfg.Guard != nil && c.set.cfg.Guard.Judge(call).Action >= c.job.verdict.Action
}

// Report tells whoever watches the agent how far the call is that ctx was given to. It does not reach the
// model: that reads the result alone.
func Report(ctx context.Context, p community.Progress) {
	if c := currentOf(ctx); c.set.cfg.Progress != nil {
		c.set.cfg.Progress(c.job.call, p)
	}
}

// Notes are what tools of one package remember of the agent whose call ctx belongs to: the T of its Set, which is
// made at the first call and lasts as long as the Set. T is a type of the package that asks, and safe for many
// goroutines as it is; nobody else sees it. Outside a Set it is a new one each time.
func Notes[T any](ctx context.Context) *T {
	c := currentOf(ctx)
	if c == noCall {
		return new(T)
	}
	key := reflect.TypeFor[T]()
	if notes, ok := c.set.notes.Load(key); ok {
		return notes.(*T)
	}
	notes, _ := c.set.notes.LoadOrStore(key, new(T))
	return notes.(*T)
}
