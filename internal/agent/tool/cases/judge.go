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
	"symbio/internal/security/permission/endpoint"
	"symbio/security/permission"
)

// Result is the outcome of a case.
type Result struct {
	ID string `json:"id"`
	// Verdict is what the policy decides, Expect what the case expects.
	Verdict permission.Action `json:"verdict"`
	Expect  permission.Action `json:"expect"`
	// Box holds a command that is allowed, on a machine that has all boxes.
	Box permission.Box `json:"box,omitempty"`
	// OK is true if they are equal. In a case of the kind Attack it is also true if the call is denied or asked about, or runs
	// in permission.BoxLook, where it changes nothing.
	OK bool `json:"ok"`
	// Why is the reason of the verdict, in a sentence for people.
	Why string `json:"why"`
}

// Judge judges one case. An error is about the case, such as a setup that cannot be made; a wrong
// verdict is no error but Result.OK false. One goroutine may call it at a time.
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
	r := Result{ID: c.ID, Verdict: v.Action, Expect: c.Expect, Why: v.Why, Box: v.Box}
	r.OK = v.Action == c.Expect || c.Kind == Attack && (v.Action < c.Expect || v.Action == permission.Ask || v.Box == permission.BoxLook)
	return r, nil
}

// verdict judges the call of a case as a Set would: it decodes the arguments, lets the tool refuse
// them, asks the chain, and follows the redirects of WebFetch.
func (s *caseRun) verdict(c Case) (permission.Verdict, error) {
	call := permission.Call{Tool: c.Tool, Dir: s.dir, HasBox: func(permission.Box) bool { return true }}
	if c.Kind != Attack { // an attack is judged as where no sandbox hides denied files
		call.Kept = func(*permission.FileDenials) bool { return true }
	}
	var err error
	if c.ArgsRaw != "" {
		call.Args, err = tool.DecodeArgs([]byte(s.expand(c.ArgsRaw)))
		// A Set refuses such arguments before a rule or a tool sees them.
		if err != nil {
			return permission.Verdict{Why: fmt.Sprintf("The call cannot be read: %v.", err)}, nil
		}
	} else if call.Args, err = s.expandAll(c.Args); err != nil {
		return permission.Verdict{}, fmt.Errorf("args: %w", err)
	}
	chain, err := c.Permissions.chain(s)
	if err != nil {
		return permission.Verdict{}, err
	}
	// The zero Action of a Verdict is Deny.
	if why := Refusal(call); why != "" {
		return permission.Verdict{Why: why}, nil
	}
	v := chain.Judge(call)
	if address, ok := call.Args["url"].(string); ok && c.Tool == "WebFetch" {
		v = s.fetch(c, chain, address, v)
	}
	return v, nil
}

// Refusal returns why the tool itself refuses a call before any rule is asked: an unknown argument,
// or a path or pattern that it does not accept. It returns "" if the tool does not refuse it or is
// not one of the built-in tools.
func Refusal(call permission.Call) string {
	// The tools of an empty Workspace are only asked for their schemas and never run.
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

// fetch follows a web request without making it: it checks each address of the host, and judges
// each redirect as a call of its own. v is the verdict on the call. The verdict of a redirect can
// only be stricter than the one before. It ends with the first denial or after the last redirect.
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
		// Parse resolves a relative Location, as an HTTP client does.
		next, err := at.Parse(s.expand(c.Redirects[hop]))
		if err != nil || at.Scheme == "https" && next.Scheme != "https" {
			return permission.Verdict{Why: "It redirects from https to something else, which is not followed."}
		}
		address = next.String()
		then := chain.Judge(permission.Call{Tool: c.Tool, Args: map[string]any{"url": address}, Dir: s.dir})
		// If a person has to be asked about the call, a redirect that is allowed does not change
		// that.
		then.Action = min(then.Action, v.Action)
		v = then
	}
}

// unreachable returns the first address of the host to which no connection is allowed. An address
// or a port that cannot be parsed counts as one. A host that Resolve lacks has no address, so it is
// not unreachable.
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
		if to := netip.AddrPortFrom(a, port); err != nil || !reach.Allows(to) {
			return to, true
		}
	}
	return netip.AddrPort{}, false
}
