package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"time"

	"symbio/security/identity"
)

// The limits of a site.
const (
	maxBody      = 64 << 10         // of a request, in bytes
	maxHeader    = 32 << 10         // of a request, in bytes
	maxStreams   = 16               // open pages that are kept current
	readTimeout  = 10 * time.Second // of a whole request
	writeTimeout = 30 * time.Second // of an answer; a stream has it for each message
	idleTimeout  = 2 * time.Minute  // of a connection
	drain        = time.Second      // for requests when the node ends
)

// site serves the dashboard at one address.
type site struct {
	*Dashboard
	listener net.Listener
	lan      bool   // by TLS
	print    string // the SHA-256 of the certificate that browsers are shown; "" without TLS
	host     string // what requests must be for, with the port
	tokens   secrets
	sessions secrets
	streams  chan struct{} // has an element for each stream that runs
}

// newSite returns a site for the listener, which serve closes.
func newSite(d *Dashboard, l net.Listener, lan bool) (*site, error) {
	s := &site{
		Dashboard: d, listener: l, lan: lan, streams: make(chan struct{}, maxStreams),
		tokens: secrets{max: maxTokens, life: tokenLife}, sessions: secrets{max: maxSessions, life: sessionIdle},
	}
	if at, is := l.Addr().(*net.TCPAddr); lan && is {
		own, err := identity.BrowserCertificate(at.IP)
		if err != nil {
			return nil, err
		}
		s.listener, s.print = tls.NewListener(l, identity.BrowserTLS(d.cfg.Identity, own)), fmt.Sprintf("% X", sha256.Sum256(own.Certificate[0]))
	}
	s.host = l.Addr().String()
	if !lan {
		_, port, _ := net.SplitHostPort(s.host)
		s.host = ownName(d.cfg.Name) + ".localhost:" + port
	}
	return s, nil
}

// ownName returns a name below localhost that no other program of the machine
// knows. A browser gives the cookies of a host to all its ports: at 127.0.0.1,
// or at a name that can be guessed, another local server that the person opens
// would get the session.
func ownName(node string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return -1
	}, strings.ToLower(node))
	return strings.Trim(name[:min(len(name), 30)]+"-"+strings.ToLower(rand.Text()[:16]), "-")
}

// origin returns the scheme, host and port of the site.
func (s *site) origin() string {
	if s.lan {
		return "https://" + s.host
	}
	return "http://" + s.host
}

// serve serves until ctx ends, and returns when all requests have ended.
func (s *site) serve(ctx context.Context) {
	server := &http.Server{
		Handler: s.handler(), BaseContext: func(net.Listener) context.Context { return ctx }, // ends the streams
		MaxHeaderBytes: maxHeader, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
	}
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(drain, func() { _ = server.Close() })
		defer timer.Stop()
		_ = server.Shutdown(context.Background()) // ends when the timer closes the server
	})
	if err := server.Serve(s.listener); ctx.Err() == nil {
		s.cfg.Logger.Error("the dashboard has ended", "addr", s.listener.Addr().String(), "err", err)
		stop()
	}
}

// handler returns the whole of the site: the checks around the pages.
func (s *site) handler() http.Handler {
	static, _ := fs.Sub(embedded, "static") // its name is good
	open := http.NewServeMux()
	open.HandleFunc("GET /login", s.login)
	open.Handle("GET /static/", http.StripPrefix("/static", http.FileServerFS(static)))
	open.Handle("/", s.authenticated(s.routes()))
	return s.guarded(http.NewCrossOriginProtection().Handler(open))
}

// routes returns the pages and actions, for requests with a session.
func (s *site) routes() http.Handler {
	mux := http.NewServeMux()
	for _, p := range s.pages {
		mux.HandleFunc("GET "+p.Path, func(w http.ResponseWriter, r *http.Request) { s.show(w, r, p) })
		mux.HandleFunc("POST "+p.Path, func(w http.ResponseWriter, r *http.Request) { s.act(w, r, p) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		s.say(w, http.StatusNotFound, "There is no such page", message{Text: "The address may be of another version of symbio.", Back: "/"})
	})
	return mux
}

// policy lets a page load what this package serves, and nothing else. There is
// no code and no style inside of pages.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// guarded sets the headers of every answer, and refuses requests for another
// host, which a page reaches by DNS rebinding, and those that are too large.
func (s *site) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store", "X-Frame-Options": "DENY",
		} {
			w.Header().Set(name, value)
		}
		if !strings.EqualFold(r.Host, s.host) {
			http.Error(w, "this is not the address of the dashboard; open the address that `symbio dashboard` prints", http.StatusMisdirectedRequest)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// isOwn reports whether a page of the site sent the request. A program with a
// stolen cookie that sends neither header is refused, too.
func (s *site) isOwn(r *http.Request) bool {
	if from := r.Header.Get("Sec-Fetch-Site"); from != "" {
		return from == "same-origin"
	}
	return r.Header.Get("Origin") == s.origin()
}
