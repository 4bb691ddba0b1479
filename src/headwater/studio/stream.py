"""The screen ``stream``."""

from fastapi import APIRouter

router = APIRouter(tags=["stream"])
