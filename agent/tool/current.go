package tool

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"reflect"

	"symbio/community"
	"symbio/internal/security/permission/endpoint"
	"symbio/internal/security/permission/file"
	"symbio/security/permission"
)

// current is the call that a context belongs to. Set.tool stores it in the context of each running
// tool.
type current struct {
	set *Set
	job *job
}

type currentKey struct{}

// noCall is returned for a context that does not belong to a call. Its zero Set makes every
// accessor below return its zero value.
var noCall = &current{set: &Set{}, job: &job{}}

// currentOf returns the call that ctx belongs to, or noCall.
func currentOf(ctx context.Context) *current {
	if c, ok := ctx.Value(currentKey{}).(*current); ok {
		return c
	}
	return noCall
}

// Dir returns the directory to which the guard resolved the relative paths of the call. A tool must
// resolve them to the same one. It returns "" outside a Set.
func Dir(ctx context.Context) string { return currentOf(ctx).set.cfg.Dir }

// ReadDirs returns the directories outside the workspace that a tool may read for this call's
// agent. The guard has already decided what may be read there.
func ReadDirs(ctx context.Context) []string {
	if dirs := currentOf(ctx).set.cfg.ReadDirs; dirs != nil {
		return dirs()
	}
	return nil
}

// AgentOf returns the agent that made the call (SetConfig.Agent), for tools that several agents
// share. It returns "" outside a Set.
func AgentOf(ctx context.Context) string { return currentOf(ctx).set.cfg.Agent }

// Except returns the files that a tool which walks directories must leave out. nil means none.
func Except(ctx context.Context) *file.Except { return currentOf(ctx).job.verdict.Except }

// Reach returns the addresses to which a tool may connect. The tool must check each connection
// against it, redirects included. nil means the web ports of public addresses.
func Reach(ctx context.Context) *endpoint.AllowList { return currentOf(ctx).job.verdict.Dial }

// Plan returns the command as the guard judged it, which a tool that runs commands must run. It
// returns nil outside a Set.
func Plan(ctx context.Context) *permission.Plan { return currentOf(ctx).job.verdict.Plan }

// BoxOf returns what has to hold the command of the call of ctx; "" for calls that run none.
func BoxOf(ctx context.Context) permission.Box { return currentOf(ctx).job.verdict.Box }

// MayFollowLink reports whether the call of ctx may also use the file at path, to which a symbolic
// link led. The link may have been created after the guard judged the call. It may if the guard's
// verdict for path is not stricter than the verdict for the call. It returns true outside a Set.
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

// MayRead reports whether the agent of ctx's call may read the file at path without a person's
// approval. A tool asks before it shows people what stands in a file. It returns false outside a Set.
func MayRead(ctx context.Context, path string) bool {
	c := currentOf(ctx)
	call := c.set.callOf(ctx, c.job)
	call.Tool, call.Args = "Read", map[string]any{"file_path": path}
	return c.set.cfg.Guard != nil && c.set.cfg.Guard.Judge(call).Action == permission.Allow
}

// Report reports the progress of the call of ctx to the observers of the agent. The model does not
// see it.
func Report(ctx context.Context, p community.Progress) {
	if c := currentOf(ctx); c.set.cfg.Progress != nil {
		c.set.cfg.Progress(c.job.call, p)
	}
}

// QuestionOf begins the name of a Decision that is no call: the question of the MCP server whose name follows. No tool can
// have such a name, so an answer allows no call.
const QuestionOf = "question of "

// Question puts a question of a server, which came up during the call of ctx, to the person of the agent: what is asked,
// as args, and a remark. It blocks until the answer, whose Reason is what the person typed. Without a person, and
// outside a Set, the answer is no.
func Question(ctx context.Context, server string, args map[string]any, remark string) Answer {
	c := currentOf(ctx)
	if c.set.cfg.Ask == nil {
		return Answer{Why: NoPerson}
	}
	return c.set.cfg.Ask(ctx, Decision{Agent: c.set.cfg.Agent, CallID: c.job.call.ID + "?", Tool: QuestionOf + server, Args: args,
		Verdict: permission.Verdict{Action: permission.Ask, Why: remark}})
}

// FileEdit is a change of a file that a tool is about to make. Before and After are the SHA-256 of the
// content in hex; "" means that the file does not exist.
type FileEdit struct {
	Path          string // absolute, with links followed
	Before, After string
	Mode          fs.FileMode // permission bits before the change
	Content       []byte      // before the change; nil if there is no file, or it is above MaxKept
}

// MaxKept is the size up to which the content of a file is kept before a change, in bytes.
const MaxKept = 16 << 20

// RecordEdit records a change of a file, so that it can be undone. A tool must call it before the
// change, and must not make the change if it returns an error. describe returns the change, and is
// called only if changes are recorded.
func RecordEdit(ctx context.Context, describe func() (FileEdit, error)) error {
	c := currentOf(ctx)
	if c.set.cfg.OnEdit == nil {
		return nil
	}
	e, err := describe()
	if err != nil {
		return err
	}
	if err := c.set.cfg.OnEdit(c.job.call, e); err != nil {
		return fmt.Errorf("nothing was written, because it could not be undone: %w", err)
	}
	return nil
}

// RecordFile records the content of a file that the agent has read or written, as a SHA-256 in hex, for
// KnownFile in its later lives.
func RecordFile(ctx context.Context, path, hash string) {
	if on := currentOf(ctx).set.cfg.OnFile; on != nil {
		on(path, hash)
	}
}

// KnownFile returns the content of a file that was recorded last in an earlier life of the agent; "" =
// none was.
func KnownFile(ctx context.Context, path string) (hash string) {
	if known := currentOf(ctx).set.cfg.KnownFile; known != nil {
		return known(path)
	}
	return ""
}

// Notes returns the T that is stored for the agent whose call ctx belongs to. It is created at the
// first call and lasts as long as the agent's Set. T is a type of the calling package, so that no
// other package can read it, and must be safe for concurrent use as its zero value. Outside a Set
// it returns a new T each time.
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
