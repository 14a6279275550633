package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net"
	"net/http"
	"sync"
	"time"

	"symbio/security/identity"
)

const (
	maxSessions = 32
	sessionIdle = 12 * time.Hour
	maxTokens   = 8
	tokenLife   = 2 * time.Minute
	// roleDashboard is the role of a certificate that needs no token. Only a token of the cluster that was
	// made for this role gives it: other nodes must not control this one.
	roleDashboard = "dashboard"
)

// secretHash is the SHA-256 of a token or of the value of a cookie. Only hashes
// are kept, so that no secret can be read from the memory of pages or errors.
type secretHash [sha256.Size]byte

// access has the tokens that can still be used, and the sessions of browsers.
// All are gone when the node ends.
type access struct {
	mu       sync.Mutex
	tokens   []token    // guarded by mu, the oldest first
	sessions []*browser // guarded by mu, the one used last at the end
}

// token can be exchanged for a session once, until it ends.
type token struct {
	hash secretHash
	ends time.Time
}

// browser is the session of a browser that has shown a token.
type browser struct {
	hash secretHash
	// By says who acts, for the record: the beginning of the hash, which identifies the session and
	// gives no access, and the address.
	By   string
	used time.Time
	// notice is shown on the next page, once. It is guarded by the mutex of access.
	notice string
}

// sessionKey is the key of the session in the context of a request.
type sessionKey struct{}

// newSecret returns 256 random bits as text, and their hash.
func newSecret() (string, secretHash) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	text := base64.RawURLEncoding.EncodeToString(b[:])
	return text, sha256.Sum256([]byte(text))
}

// newToken returns a token. The oldest one ends if there are too many.
func (a *access) newToken() string {
	text, hash := newSecret()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens = append(a.tokens, token{hash, time.Now().Add(tokenLife)})
	a.tokens = a.tokens[max(0, len(a.tokens)-maxTokens):]
	return text
}

// redeem ends the token and reports whether it was good.
func (a *access) redeem(text string) bool {
	hash := secretHash(sha256.Sum256([]byte(text)))
	a.mu.Lock()
	defer a.mu.Unlock()
	good, kept := false, []token(nil)
	for _, t := range a.tokens {
		switch {
		case time.Now().After(t.ends):
		case subtle.ConstantTimeCompare(t.hash[:], hash[:]) == 1:
			good = true
		default:
			kept = append(kept, t)
		}
	}
	a.tokens = kept
	return good
}

// begin returns the secret of a new session. The session that was used least
// recently ends if there are too many.
func (a *access) begin(remote string) (string, *browser) {
	text, hash := newSecret()
	s := &browser{hash: hash, By: hex.EncodeToString(hash[:4]) + " from " + remote, used: time.Now()}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sessions = append(a.sessions, s)
	a.sessions = a.sessions[max(0, len(a.sessions)-maxSessions):]
	return text, s
}

// find returns the session of a cookie's value, nil if there is none or it was
// not used for too long.
func (a *access) find(text string) (found *browser) {
	hash := secretHash(sha256.Sum256([]byte(text)))
	a.mu.Lock()
	defer a.mu.Unlock()
	var kept []*browser
	for _, s := range a.sessions {
		switch {
		case time.Since(s.used) > sessionIdle:
		case subtle.ConstantTimeCompare(s.hash[:], hash[:]) == 1:
			found = s
		default:
			kept = append(kept, s)
		}
	}
	if found != nil {
		found.used = time.Now()
		kept = append(kept, found)
	}
	a.sessions = kept
	return found
}

// setNotice sets what the next page of the session shows.
func (a *access) setNotice(s *browser, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.notice = text
}

// takeNotice returns the notice of the session and removes it.
func (a *access) takeNotice(s *browser) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	text := s.notice
	s.notice = ""
	return text
}

// cookieName returns the name of the cookie. Browsers give the cookies of a
// host to all its ports, so that two nodes of a machine need two names.
func (s *site) cookieName() string {
	_, port, _ := net.SplitHostPort(s.listener.Addr().String())
	return "symbio-" + port
}

// start begins a session and sets its cookie.
func (s *site) start(w http.ResponseWriter, r *http.Request) *browser {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	text, session := s.access.begin(host)
	http.SetCookie(w, &http.Cookie{Name: s.cookieName(), Value: text, Path: "/", HttpOnly: true, Secure: s.lan, SameSite: http.SameSiteStrictMode})
	return session
}

// login exchanges a token for a session. The page after it opens the dashboard
// by itself: a browser that came from elsewhere, such as a link in a mail, sends
// the strict cookie only then.
func (s *site) login(w http.ResponseWriter, r *http.Request) {
	text := r.FormValue("token")
	if text == "" {
		w.Header().Set("Refresh", "0; url=/")
		s.refuse(w, http.StatusOK, "Welcome", "The dashboard opens by itself.")
		return
	}
	if !s.access.redeem(text) {
		s.refuseLogin(w, http.StatusForbidden, "This address was used already, or is too old", "An address opens the dashboard once, within two minutes.")
		return
	}
	s.start(w, r)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// sessionOf returns the session of a request: that of its cookie, or a new one
// for a browser whose certificate needs no token; else nil.
func (s *site) sessionOf(w http.ResponseWriter, r *http.Request) *browser {
	if c, err := r.Cookie(s.cookieName()); err == nil {
		if found := s.access.find(c.Value); found != nil {
			return found
		}
	}
	if r.TLS == nil || r.Method != http.MethodGet {
		return nil
	}
	if peer, err := identity.PeerOf(*r.TLS); err != nil || peer.Role != roleDashboard {
		return nil
	}
	return s.start(w, r)
}

// authenticated refuses requests without a session, and those that change
// something and do not come from a page of the site.
func (s *site) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session := s.sessionOf(w, r)
		switch {
		case session == nil:
			s.refuseLogin(w, http.StatusUnauthorized, "This browser is not known here", "A session ends after twelve hours without use, and with the node.")
		case r.Method != http.MethodGet && r.Method != http.MethodHead && !s.isOwn(r):
			s.refuse(w, http.StatusForbidden, "This request does not come from the dashboard", "Nothing was changed. Open the page again and repeat what you did.")
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), sessionKey{}, session)))
		}
	})
}
