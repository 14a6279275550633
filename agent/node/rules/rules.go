// Package rules has what a person allows: the rules of the configuration that are in force, which can be read anew while the node
// runs, and the calls that a person has allowed for good.
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
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
	"symbio/security/permission/authorize"
	"symbio/security/standing"
)

// reloadable are the keys of the configuration that are taken up while a node runs.
var reloadable = []string{"permissions", "authorize"}

// Config sets up a Rules.
type Config struct {
	// Start is the configuration that the node starts with.
	Start config.Config
	// Read reads it anew; nil = it stays as it is.
	Read func() (config.Config, error)
	// Dir is the directory in which agents work.
	Dir string
	// Standing is the file of what a person has allowed for good; "" = none can be.
	Standing string
	Events   *event.Stream
	Logger   *slog.Logger
}

// Rules are the rules in force. It is safe for concurrent use.
type Rules struct {
	cfg      Config
	standing *standing.Book
	inForce  atomic.Pointer[inForce]
}

type inForce struct {
	config  config.Config // permissions and authorize are in force; the rest is as it was read with them
	policy  permission.Policy
	scope   string // the digest of policy
	inbound authorize.Rules
}

// New returns the rules of the configuration that the node starts with.
func New(cfg Config) (*Rules, error) {
	r := &Rules{cfg: cfg}
	if err := r.take(cfg.Start); err != nil {
		return nil, err
	}
	var err error
	if cfg.Standing != "" {
		r.standing, err = standing.Open(cfg.Standing)
	}
	return r, err
}

// take takes up the rules of a configuration, for every call from now on. With an error nothing changes.
func (r *Rules) take(c config.Config) (err error) {
	next := &inForce{config: c}
	if next.policy, err = c.Permissions.Policy(); err == nil {
		next.policy, err = forPeople(next.policy)
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

// forPeople keeps agents from answering approvals, here or elsewhere, whatever else the policy allows.
func forPeople(p permission.Policy) (permission.Policy, error) {
	never, err := permission.ParseRule("invoke_capability(" + authorize.OwnersPrefix + "*)")
	p.FinalDeny = append(slices.Clone(p.FinalDeny), never)
	return p, err
}

// Policy is what the configuration allows agents now.
func (r *Rules) Policy() permission.Policy { return r.inForce.Load().policy }

// Inbound is what it allows other nodes now.
func (r *Rules) Inbound() authorize.Rules { return r.inForce.Load().inbound }

// Denied are the files that it denies now.
func (r *Rules) Denied() *permission.Denied { return r.Policy().Denied(r.cfg.Dir) }

// Reload reads the configuration anew and takes up its rules: changed are the keys that were taken up, restart those that count
// only when the node starts again. With an error the old rules hold. What it did is in the event stream, too.
func (r *Rules) Reload() (changed, restart []string, err error) {
	if r.cfg.Read == nil {
		return nil, nil, errors.New("it was not started by symbio up, and has its configuration for good")
	}
	c, err := r.cfg.Read()
	was, start, now := reflect.ValueOf(r.inForce.Load().config), reflect.ValueOf(r.cfg.Start), reflect.ValueOf(c)
	if err == nil {
		err = r.take(c)
	}
	if err != nil {
		r.cfg.Logger.Warn("configuration not taken up", "err", err)
		r.cfg.Events.Warn(event.Warning{Why: "the old rules hold: " + err.Error()})
		return nil, nil, fmt.Errorf("the old rules hold: %w", err)
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
	r.cfg.Events.Publish("reloaded", "", reloadedEvent{changed, restart})
	return changed, restart, nil
}

// reloadedEvent says which keys of the configuration were taken up, and which others need a restart.
type reloadedEvent struct {
	Changed []string `json:"changed"`
	Restart []string `json:"restart,omitempty"`
}

// Granted is what a person has allowed for good, as far as it counts under the rules in force.
func (r *Rules) Granted() []permission.Granted {
	if r.standing == nil {
		return nil
	}
	return r.standing.Granted(r.inForce.Load().scope, r.cfg.Dir)
}

// Keep allows for good the shown call, by these rules.
func (r *Rules) Keep(granted []permission.Granted, call, by string) error {
	return r.standing.Keep(granted, r.inForce.Load().scope, r.cfg.Dir, call, by)
}

// Standing lists what a person has allowed for good, and says of each entry whether it counts now.
func (r *Rules) Standing() (all []*symbiov1.LastingRule) {
	for _, e := range r.standing.Entries() {
		out := &symbiov1.LastingRule{Id: e.ID, Rule: e.Shown, Dir: e.Dir, Since: timestamppb.New(e.Since), By: e.By}
		switch {
		case e.Scope != r.inForce.Load().scope:
			out.WhyNot = "the rules of the configuration are others than when it was allowed"
		case e.Dir != r.cfg.Dir:
			out.WhyNot = "this node works in another directory"
		}
		out.InForce = out.WhyNot == ""
		all = append(all, out)
	}
	return all
}

// Forget revokes one of them at once.
func (r *Rules) Forget(id string) error {
	found, err := r.standing.Forget(id)
	if err == nil && !found {
		err = fmt.Errorf("%w: nothing of the id %q was allowed for good; `symbio approvals rules` lists what was", community.ErrNotFound, id)
	}
	return err
}
