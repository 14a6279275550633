package replay

import (
	"net/http"
	"net/url"
	"strings"

	"symbio/agent/llm"
	"symbio/internal/security/lazyregexp"
)

// keyLike is what keys and tokens of well-known services look like.
var keyLike = lazyregexp.New(`sk-[A-Za-z0-9_-]{16,}|(?:gh[pousr]|github_pat|glpat|xox[abpr]|hf|AKIA|AIza)[-_]?[A-Za-z0-9_-]{16,}|(?i:bearer) +[A-Za-z0-9._~+/-]{16,}=*|eyJ[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+`)

// safeHeaderNames are the headers that are recorded. All others may hold secrets.
var safeHeaderNames = []string{"Accept", "Anthropic-Version", "Content-Type", "Retry-After", "Retry-After-Ms"}

// safeHeaders returns the harmless headers, with the first value of each.
func safeHeaders(h http.Header) http.Header {
	out := http.Header{}
	for _, k := range safeHeaderNames {
		if v := h.Get(k); v != "" {
			out.Set(k, v)
		}
	}
	return out
}

// scrubber removes secrets from texts and URLs. It is safe for concurrent use.
type scrubber struct{ secrets []llm.Secret }

// text replaces the given secrets, and everything that looks like a key, by three stars.
func (s scrubber) text(text string) string {
	for _, k := range s.secrets {
		if key := k.Reveal(); key != "" {
			text = strings.ReplaceAll(text, key, "***")
		}
	}
	return keyLike().ReplaceAllString(text, "***")
}

// url returns a URL without a user, a fragment and the values of its query; "" if it is malformed,
// since a secret could be anywhere in it.
func (s scrubber) url(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	var names []string
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		if name, _, _ := strings.Cut(part, "="); name != "" {
			names = append(names, name+"=*")
		}
	}
	u.User, u.RawQuery, u.Fragment = nil, strings.Join(names, "&"), ""
	return s.text(u.String())
}
