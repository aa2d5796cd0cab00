"""AppWorld's own environment servers, leased one task at a time; the package `appworld` itself is never imported."""
