package tape

import (
	"bytes"
	"net/url"
	"regexp"
	"strings"

	"symbio/agent/llm"
)

// keyLike is what keys and tokens of well-known services look like.
var keyLike = regexp.MustCompile(`sk-[A-Za-z0-9_-]{16,}|(?:gh[pousr]|github_pat|glpat|xox[abpr]|hf|AKIA|AIza)[-_]?[A-Za-z0-9_-]{16,}|(?i:bearer) +[A-Za-z0-9._~+/-]{16,}=*|eyJ[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+`)

// scrubber takes out what nobody should read.
type scrubber struct{ secrets []llm.Secret }

// scrub puts stars in the place of secrets, as many as they are long: an answer's pieces stay as long as they were.
func (s scrubber) scrub(data []byte) []byte {
	stars := func(m []byte) []byte { return bytes.Repeat([]byte("*"), len(m)) }
	for _, k := range s.secrets {
		if key := []byte(k.Reveal()); len(key) > 0 {
			data = bytes.ReplaceAll(data, key, stars(key))
		}
	}
	return keyLike.ReplaceAllFunc(data, stars)
}

// query is a URL's path with the names of its query, without their values.
func query(u *url.URL) string {
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	var names []string
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		if name, _, _ := strings.Cut(part, "="); name != "" {
			names = append(names, name+"=*")
		}
	}
	if len(names) > 0 {
		path += "?" + strings.Join(names, "&")
	}
	return path
}
