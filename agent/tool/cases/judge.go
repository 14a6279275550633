package cases

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"

	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/security/permission"
	"symbio/security/permission/endpoint"
)

// Result is what became of a case.
type Result struct {
	ID      string            `json:"id"`
	Verdict permission.Action `json:"verdict"`
	Expect  permission.Action `json:"expect"`
	OK      bool              `json:"ok"`
	Why     string            `json:"why"` // of the verdict
}

// Judge judges one case. An error is about the case, such as a setup that cannot be made.
func (w *World) Judge(c Case) (Result, error) {
	if c.wrong != nil {
		return Result{}, c.wrong
	}
	s, err := w.set(c)
	if err != nil {
		return Result{}, err
	}
	v, err := s.verdict(c)
	if err != nil {
		return Result{}, err
	}
	r := Result{ID: c.ID, Verdict: v.Action, Expect: c.Expect, Why: v.Why}
	r.OK = v.Action == c.Expect || c.Kind == Attack && v.Action < c.Expect
	return r, nil
}

func (s *caseRun) verdict(c Case) (permission.Verdict, error) {
	call := permission.Call{Tool: c.Tool, Dir: s.dir}
	var err error
	if c.ArgsRaw != "" {
		call.Args, err = tool.DecodeArgs([]byte(s.expand(c.ArgsRaw)))
		if err != nil { // a tool would not even be asked
			return permission.Verdict{Why: fmt.Sprintf("The call cannot be read: %v.", err)}, nil
		}
	} else if call.Args, err = s.expandAll(c.Args); err != nil {
		return permission.Verdict{}, fmt.Errorf("args: %w", err)
	}
	chain, err := s.chain(c)
	if err != nil {
		return permission.Verdict{}, err
	}
	if why := Refusal(call); why != "" {
		return permission.Verdict{Why: why}, nil
	}
	v := chain.Judge(call)
	if address, ok := call.Args["url"].(string); ok && c.Tool == "WebFetch" {
		v = s.fetch(c, chain, address, v)
	}
	return v, nil
}

// Refusal says why the tool itself refuses a call before any rule is asked: an argument that it
// does not have, or a path or pattern that it does not take. "" when it does not, or when nothing
// is known here about the tool.
func Refusal(call permission.Call) string {
	for _, t := range new(builtin.Workspace).Tools() {
		var takes struct{ Properties map[string]any }
		if t.Spec().Name != call.Tool || json.Unmarshal(t.Spec().Schema, &takes) != nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(call.Args)) {
			var err error
			text, _ := call.Args[name].(string)
			if _, has := takes.Properties[name]; !has {
				err = fmt.Errorf("it has no argument %q", name)
			} else if name == "file_path" || name == "path" && text != "" {
				err = builtin.CheckPath(text)
			} else if call.Tool == "Glob" && name == "pattern" {
				err = builtin.CheckPattern(text)
			}
			if err != nil {
				return fmt.Sprintf("The tool %s refuses this, whatever the rules say: %v.", call.Tool, err)
			}
		}
	}
	return ""
}

// chain is the agent of the case, and who stands behind it.
func (s *caseRun) chain(c Case) (permission.Chain, error) {
	agent := permission.Link{Name: "agent", Policy: c.Rules.in(s).policy(), Memory: new(permission.Memory)}
	for _, m := range c.SessionMemory {
		args, err := s.expandAll(m.Args)
		if err != nil {
			return nil, fmt.Errorf("sessionMemory: %w", err)
		}
		under := agent.Policy
		if m.Scope == "outer" {
			under = permission.Policy{}
		}
		answer, err := m.answer()
		if err != nil {
			return nil, err
		}
		agent.Memory.Remember(permission.Call{Tool: m.Tool, Args: args, Dir: s.dir}, under, answer)
	}
	if c.SkillScope != "project" { // what a project's skill wishes for is granted when a person has trusted it
		granted := s.granted(c)
		agent.Granted = func() []permission.Granted { return granted }
	}
	chain := permission.Chain{agent}
	if c.ParentRules != nil {
		chain = append(chain, permission.Link{Name: "parent", Policy: c.ParentRules.in(s).policy()})
	}
	if c.OnBehalfOf != nil {
		chain = append(chain, permission.Link{Name: "requester", Policy: c.OnBehalfOf.in(s).policy()})
	}
	return chain, nil
}

// granted are the rules of the case's skill. One that cannot be read, or that no skill is granted, is
// none.
func (s *caseRun) granted(c Case) (all []permission.Granted) {
	for _, text := range c.SkillRules {
		if r, err := permission.ParseGrant(s.expand(text)); err == nil {
			all = append(all, permission.Granted{Rule: r.WithSkillDir(s.work), Source: "skill:case"})
		}
	}
	return all
}

// fetch goes the way of a request: each name's addresses, and each redirect as a call of its own.
func (s *caseRun) fetch(c Case, chain permission.Chain, address string, v permission.Verdict) permission.Verdict {
	for hop := 0; ; hop++ {
		if v.Action == permission.Deny {
			return v
		}
		at, err := url.Parse(address)
		if err != nil {
			return permission.Verdict{Why: "The URL cannot be read."}
		}
		if bad, found := unreachable(c, at, v.Dial); found {
			return permission.Verdict{Stage: permission.StageFinalDeny, Why: fmt.Sprintf("%s has the address %s, which may not be reached.", at.Hostname(), bad)}
		}
		if hop == len(c.Redirects) {
			return v
		}
		next, err := at.Parse(s.expand(c.Redirects[hop]))
		if err != nil || at.Scheme == "https" && next.Scheme != "https" {
			return permission.Verdict{Why: "It redirects from https to something else, which is not followed."}
		}
		address = next.String()
		then := chain.Judge(permission.Call{Tool: c.Tool, Args: map[string]any{"url": address}, Dir: s.dir})
		if then.Action > v.Action {
			then.Action = v.Action
		}
		v = then
	}
}

// unreachable finds an address of the host that no connection may be made to.
func unreachable(c Case, at *url.URL, reach *endpoint.AllowList) (netip.AddrPort, bool) {
	port := uint16(80)
	if at.Scheme == "https" {
		port = 443
	}
	if p := at.Port(); p != "" {
		if _, err := fmt.Sscanf(p, "%d", &port); err != nil {
			return netip.AddrPort{}, true
		}
	}
	for _, text := range c.Resolve[at.Hostname()] {
		a, err := netip.ParseAddr(text)
		to := netip.AddrPortFrom(a, port)
		if err != nil || !reach.Allows(to) {
			return to, true
		}
	}
	return netip.AddrPort{}, false
}
