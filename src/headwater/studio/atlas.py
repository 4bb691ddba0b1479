"""The screen ``atlas``."""

from fastapi import APIRouter

router = APIRouter(tags=["atlas"])
