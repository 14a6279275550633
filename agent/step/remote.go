package step

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/tool/peer"
	"symbio/security/permission"
)

// Capability is the step that another node does: the input goes to a capability of that name as
// JSON, and the output is its answer, read as JSON. on names the members that may do it, by name or
// id; none is any that provides it.
//
// The *Cluster of the context places it: on the member that has least to do for this cluster, of
// several such on the one that was given work longest ago. When that one is busy or gone before it
// began, the next one is asked; when it becomes unavailable meanwhile (community.ErrUnavailable)
// only if it says that the capability is idempotent. So Map and Parallel over it spread work over
// the machines.
//
// The errors come from community.Invoke. A call that the guardrails of ctx deny to invoke_capability,
// or have a person asked about, is community.ErrDenied, and nothing is sent.
func Capability[In, Out any](name string, on ...string) Step[In, Out] {
	return remote[In, Out]("capability "+name, func(ctx context.Context, cluster *Cluster, in In) (community.Reply, error) {
		data, err := encode(ctx, in, permission.Call{Tool: "invoke_capability", Args: map[string]any{"capability": name, "on": strings.Join(on, ",")}})
		if err != nil {
			return community.Reply{}, err
		}
		signal := community.Signal{Data: data, Requester: peer.Requester(ctx)}
		return cluster.place(ctx, job{
			fits: func(m community.Member) bool {
				return slices.Contains(m.Provides, name) && (len(on) == 0 || isNamed(m, on))
			},
			again: func(m community.Member) bool {
				known, ok := cluster.community.Capability(m.Node, name)
				return ok && known.Idempotent
			},
			do: func(ctx context.Context, m community.Member) (community.Reply, error) {
				return cluster.community.Invoke(ctx, m.ID, name, signal)
			},
		})
	})
}

// Agent is the step that an agent does, here or on another node: the input goes to it as JSON, as
// one signal, and the output is its reply, read as JSON; text, if Out is string. name is its name
// or id. as is the perception by which it is to take the signal in; none is the only one that it
// accepts.
//
// Of several members of that name the *Cluster of the context picks one as for Capability, and asks
// another only when the first did not begin. The agent is told on whose behalf it works, and works
// inside the guardrails of ctx if it lives here. A signal that they deny to send_signal, or have a person
// asked about, is community.ErrDenied. Other errors come from community.Send.
func Agent[In, Out any](name string, as ...string) Step[In, Out] {
	return remote[In, Out]("agent "+name, func(ctx context.Context, cluster *Cluster, in In) (community.Reply, error) {
		return cluster.place(ctx, job{
			fits:  func(m community.Member) bool { return len(m.Accepts) > 0 && isNamed(m, []string{name}) },
			again: func(community.Member) bool { return false },
			do: func(ctx context.Context, m community.Member) (community.Reply, error) {
				perception, err := perceptionOf(m, as)
				if err != nil {
					return community.Reply{}, err
				}
				data, err := encode(ctx, in, permission.Call{Tool: "send_signal", Args: map[string]any{"member": name, "perception": perception}})
				if err != nil {
					return community.Reply{}, err
				}
				return cluster.community.Send(tool.HandOver(ctx), m.ID, community.Signal{Perception: perception, Data: data, Requester: peer.Requester(ctx)})
			},
		})
	})
}

// remote is a step that do has a member of the context's Cluster do. Errors begin with its kind.
func remote[In, Out any](what string, do func(context.Context, *Cluster, In) (community.Reply, error)) Step[In, Out] {
	return Func(func(ctx context.Context, in In) (out Out, err error) {
		err = errNoCluster
		if cluster, _ := lookup[*Cluster](ctx); cluster != nil {
			var reply community.Reply
			if reply, err = do(ctx, cluster, in); err == nil {
				out, err = community.ReadReply[Out](reply)
			}
		}
		if err != nil {
			return out, fmt.Errorf("%s: %w", what, err)
		}
		return out, nil
	})
}

func isNamed(m community.Member, names []string) bool {
	return slices.Contains(names, m.Name) || slices.Contains(names, string(m.ID))
}

func perceptionOf(m community.Member, as []string) (string, error) {
	if len(as) > 0 {
		return as[0], nil
	}
	if usual, ok := m.DefaultPerception(); ok {
		return usual, nil
	}
	return "", fmt.Errorf("it accepts %s, say which: %w", strings.Join(m.Accepts, ", "), community.ErrNotAccepted)
}

// encode returns the input of a call as JSON, or community.ErrDenied if the guardrails around it do
// not allow the call.
func encode(ctx context.Context, in any, call permission.Call) ([]byte, error) {
	data, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("the input: %w", err)
	}
	call.Args["data"] = string(data)
	if v := tool.JudgeWithin(ctx, call); v.Action != permission.Allow {
		return nil, fmt.Errorf("%w: %s", community.ErrDenied, v.Why)
	}
	return data, nil
}

// Tasks gives tasks to new agents; *node.Node does.
type Tasks interface {
	// RunTask returns what the agent answered. It wraps community.ErrUnavailable if the node was lost on which the agent
	// was, so that it is not known what was done; a task that is repeatable is begun anew elsewhere before.
	RunTask(ctx context.Context, definition, task string, where ...string) (string, error)
}

// Task is the step that a new agent of a definition does, on the node of the community that has a place for it and the
// labels of where (package placement): the input is its task, the output its answer. So Map over it spreads work over
// the machines, as symbio map does. The Tasks of the context runs it: put step.With[step.Tasks](node, …) around the step.
// A spawn that the guardrails of ctx deny to replicate_agent, or have a person asked about, is community.ErrDenied.
func Task(definition string, where ...string) Step[string, string] {
	return Func(func(ctx context.Context, task string) (answer string, err error) {
		tasks, ok := lookup[Tasks](ctx)
		if !ok {
			return "", fmt.Errorf("task of agent %s: there are no Tasks in the context: put the step in step.With[step.Tasks](node, …)", definition)
		}
		if _, err = encode(ctx, task, permission.Call{Tool: "replicate_agent", Args: map[string]any{"agent": definition}}); err == nil {
			answer, err = tasks.RunTask(ctx, definition, task, where...)
		}
		if err != nil {
			return "", fmt.Errorf("task of agent %s: %w", definition, err)
		}
		return answer, nil
	})
}
