// Package rules has the rules in force: the rules of the configuration, which can
// be reloaded while the node runs, and what a person has allowed from now on or
// for a session.
package rules

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync/atomic"

	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/agent/event"
	"symbio/agent/node/config"
	"symbio/community"
	"symbio/internal/security/permission/authorize"
	"symbio/internal/security/standing"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
)

// reloadable are the keys of the configuration that apply to a running node.
// All other keys need a restart.
var reloadable = []string{"permissions", "authorize"}

// Config sets up a Rules.
type Config struct {
	// Start is the configuration at the start of the node.
	Start config.Config
	// Read reads the configuration again. nil = it cannot be reloaded.
	Read func() (config.Config, error)
	// Dir is the directory in which agents work.
	Dir string
	// Tools are the tools that rules may name; without names, rules may name any.
	Tools permission.Tools
	// Standing is the file of the lasting approvals. "" = there can be none.
	Standing string
	Events   *event.Stream
	Logger   *slog.Logger
}

// Rules has the rules in force. It is safe for concurrent use: readers get one
// complete, immutable set of rules, also during a reload.
type Rules struct {
	cfg      Config
	standing *standing.Book
	inForce  atomic.Pointer[ruleSet]
}

// ruleSet is one complete set of rules. It is immutable.
type ruleSet struct {
	config  config.Config // only permissions and authorize are in force
	policy  permission.Policy
	scope   string // the digest of policy
	inbound authorize.Rules
}

// New returns the rules of the configuration that the node starts with. The
// error names the bad rule, or the file of lasting approvals.
func New(cfg Config) (*Rules, error) {
	r := &Rules{cfg: cfg}
	if err := r.apply(cfg.Start); err != nil {
		return nil, err
	}
	var err error
	if cfg.Standing != "" {
		r.standing, err = standing.Open(cfg.Standing)
	}
	return r, err
}

// apply puts the rules of a configuration in force for all following calls. On
// an error nothing changes.
func (r *Rules) apply(c config.Config) (err error) {
	next := &ruleSet{config: c}
	if next.policy, err = c.Permissions.Policy(); err == nil {
		err = errors.Join(c.Permissions.UnknownTools(r.cfg.Tools)...)
	}
	if err == nil {
		next.policy, err = denyApprovals(next.policy)
	}
	if err != nil {
		return fmt.Errorf("permissions: %w", err)
	}
	if next.inbound, err = authorize.New(c.Authorize); err != nil {
		return fmt.Errorf("authorize: %w", err)
	}
	next.scope = next.policy.Digest()
	r.inForce.Store(next)
	return nil
}

// denyApprovals adds a final denial to a policy: agents must not answer
// approvals, here or on other nodes, whatever else the policy allows.
func denyApprovals(p permission.Policy) (permission.Policy, error) {
	never, err := permission.ParseRule("invoke_capability(" + authorize.OwnersPrefix + "*)")
	p.FinalDeny = append(slices.Clone(p.FinalDeny), never)
	return p, err
}

// ParseAllow reads a rule by which a person allows calls in addition to the configuration. A rule that
// no call can match is an error.
func (r *Rules) ParseAllow(text string) (permission.Rule, error) {
	if err := r.cfg.Tools.Check(text); err != nil {
		return permission.Rule{}, err
	}
	return permission.ParseAllow(text)
}

// With returns a function for what the configuration allows agents now and a person allows in addition,
// and the rules of that person. A text that is no rule, or that no call can match, is community.ErrInvalid.
func (r *Rules) With(texts []string) (policy func() permission.Policy, allow []permission.Rule, err error) {
	for _, text := range texts {
		rule, err := r.ParseAllow(text)
		if err != nil {
			return nil, nil, errors.Join(community.ErrInvalid, err)
		}
		allow = append(allow, rule)
	}
	return func() permission.Policy {
		p := r.Policy()
		p.Allow = slices.Concat(p.Allow, allow) // a copy: the array belongs to the configuration
		return p
	}, allow, nil
}

// Policy returns what the configuration allows agents now. Do not modify it.
func (r *Rules) Policy() permission.Policy { return r.inForce.Load().policy }

// Inbound returns what the configuration allows other nodes now.
func (r *Rules) Inbound() authorize.Rules { return r.inForce.Load().inbound }

// Denied returns the files that the configuration denies now.
func (r *Rules) Denied() *permission.FileDenials { return r.Policy().Denied(r.cfg.Dir) }

// Reload reads the configuration again and applies its rules. changed are the
// keys that now apply, restart the changed keys that need a restart. On an
// error the old rules stay in force. The result is logged and published as an
// event, too.
func (r *Rules) Reload() (changed, restart []string, err error) {
	if r.cfg.Read == nil {
		return nil, nil, errors.New("this node has no configuration file to reload; it was not started by symbio up")
	}
	c, err := r.cfg.Read()
	was, start, now := reflect.ValueOf(r.inForce.Load().config), reflect.ValueOf(r.cfg.Start), reflect.ValueOf(c)
	if err == nil {
		err = r.apply(c)
	}
	if err != nil {
		r.cfg.Logger.Warn("configuration not taken up", "err", err)
		r.cfg.Events.Warn("the old rules stay in force: "+err.Error(), "")
		return nil, nil, fmt.Errorf("the old rules stay in force: %w", err)
	}
	for i := range now.NumField() {
		switch key := now.Type().Field(i).Tag.Get("yaml"); {
		case !slices.Contains(reloadable, key):
			if !reflect.DeepEqual(start.Field(i).Interface(), now.Field(i).Interface()) {
				restart = append(restart, key)
			}
		case !reflect.DeepEqual(was.Field(i).Interface(), now.Field(i).Interface()):
			changed = append(changed, key)
		}
	}
	r.cfg.Logger.Info("configuration read", "changed", changed, "needs a restart", restart)
	r.cfg.Events.Publish(event.Event{Type: event.TypeReloaded, Part: event.Reload{Changed: changed, Restart: restart}})
	return changed, restart, nil
}

// Granted returns the approvals that count under the rules in force: the lasting ones, and those for the session of the
// agent, which has no parent; "" is none. An approval counts only under the rules and in the directory for which it was
// given.
func (r *Rules) Granted(agent string) []permission.Grant {
	if r.standing == nil {
		return nil
	}
	return r.standing.Granted(r.inForce.Load().scope, r.cfg.Dir, agent)
}

// Keep stores an approval of the person By. The rest of the entry is set here.
func (r *Rules) Keep(e standing.Entry) error {
	e.Scope, e.Dir = r.inForce.Load().scope, r.cfg.Dir
	return r.standing.Keep(e)
}

// End drops the approvals for the session of an agent that has ended.
func (r *Rules) End(agent string) {
	if r.standing != nil {
		r.standing.End(agent)
	}
}

// Standing returns all approvals, and says why one does not count now.
func (r *Rules) Standing() (all []*symbiov1.LastingRule) {
	for _, e := range r.standing.Entries() {
		out := &symbiov1.LastingRule{Id: e.ID, Rule: e.Shown, Dir: e.Dir, Since: timestamppb.New(e.Since), By: e.By, Session: e.Agent != ""}
		switch {
		case e.Scope != r.inForce.Load().scope:
			out.WhyNot = "the rules of the configuration have changed since the approval"
		case e.Dir != r.cfg.Dir:
			out.WhyNot = "this node works in another directory"
		}
		out.InForce = out.WhyNot == ""
		all = append(all, out)
	}
	return all
}

// Forget revokes an approval at once. An unknown id is
// community.ErrNotFound.
func (r *Rules) Forget(id string) error {
	found, err := r.standing.Forget(id)
	if err == nil && !found {
		err = fmt.Errorf("%w: no approval has the id %q; `symbio approvals rules` lists them", community.ErrNotFound, id)
	}
	return err
}
