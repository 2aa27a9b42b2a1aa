"""Any server with a listing of sessions over HTTP, described by templates."""
